"""The court: judge PyTorch derivatives by an independent JAX oracle.

The names load what they need when they are first used, so that pytest, which imports every plugin, stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity_tests.harness.candidate import Candidate as Candidate
    from parity_tests.harness.crosscheck import assert_parity as assert_parity
    from parity_tests.harness.crosscheck import crosscheck as crosscheck
    from parity_tests.harness.domains import Domain as Domain
    from parity_tests.harness.domains import integer as integer
    from parity_tests.harness.findings import Verdict as Verdict
    from parity_tests.harness.jax_candidate import JaxCandidate as JaxCandidate
    from parity_tests.harness.oracle import OracleError as OracleError
    from parity_tests.harness.report import ParityError as ParityError
    from parity_tests.harness.report import Report as Report
    from parity_tests.harness.size_rules import AxisSize as AxisSize
    from parity_tests.harness.spec import OpSpec as OpSpec

_MODULES = {
    "AxisSize": "size_rules",
    "Candidate": "candidate",
    "Domain": "domains",
    "JaxCandidate": "jax_candidate",
    "OpSpec": "spec",
    "OracleError": "oracle",
    "ParityError": "report",
    "Report": "report",
    "Verdict": "findings",
    "assert_parity": "crosscheck",
    "crosscheck": "crosscheck",
    "integer": "domains",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.harness.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
