"""gradparity replay, of a file that `gradparity audit --arrays` has written: one operation of a step again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.failure_file import ReplayError


def replay_operation(
    path: Path, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], case: Path | None
) -> tuple[str, int]:
    """Run an operation again, and compare it with what is right within the bounds of the audit.

    Args:
        path: of the file.
        facts: that it holds.
        arrays: that it holds.
        case: the function to run, as file.py:NAME; the operator itself if it is None.

    Returns:
        The comparisons as text, and the exit code.

    Raises:
        ReplayError, CannotLoad: the file, or the function, cannot be used.
    """
    from parity_tests.auditing.files import called_in
    from parity_tests.auditing.operation import Finding, finding_of
    from parity_tests.auditing.replayed import NotReplayed, operator_named, replayed
    from parity_tests.harness.data_files import Malformed

    try:
        name, called = called_in(facts)
    except Malformed as error:
        raise ReplayError(f"{path}: not what gradparity has written of an audit ({error})") from error
    try:
        function = operator_named(name) if case is None else _function(str(case))
        rows = replayed(function, called, arrays)
    except NotReplayed as error:
        raise ReplayError(f"{path}: {name if case is None else case}: {error}") from error
    finding = finding_of(rows)
    codes = {Finding.AGREES: 0, Finding.NOT_JUDGED: COULD_NOT_RUN}
    head = f"{name}: {finding}" if case is None else f"{case}, in the place of {name}: {finding}"
    return "\n  ".join([head, *map(str, rows)]), codes.get(finding, 1)


def _function(target: str) -> Callable[..., Any]:
    """The function that a target names; of a Function, its `apply`."""
    import torch

    from parity_tests.cli.callables import callable_of

    found = callable_of(target)
    is_function = isinstance(found, type) and issubclass(found, torch.autograd.Function)
    return found.apply if is_function else found
