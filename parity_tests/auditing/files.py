"""The .npz files of operations with something wrong, which `gradparity replay` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from parity_tests.auditing.operation import Facts, Operation
from parity_tests.harness.data_files import built, field
from parity_tests.harness.judging.reproducer import FACTS, FORMAT

KIND = "audit"


def save(operation: Operation, path: Path) -> None:
    """Write the arrays of an operation with something wrong, and how it was called."""
    assert operation.facts is not None
    called = asdict(operation.facts)
    facts = {"format": FORMAT, "kind": KIND, "operation": operation.name, "called": called}
    named: dict[str, Any] = {FACTS: np.array(json.dumps(facts)), **operation.arrays}
    np.savez(path, **named)


def called_in(facts: Mapping[str, Any]) -> tuple[str, Facts]:
    """Return the name of the operation that a file is of, and how it was called.

    Raises:
        Malformed: these facts say something else; the message names the place.
    """
    return field(facts, "operation", str), built(Facts, facts.get("called"), "called")
