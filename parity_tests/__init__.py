"""The court: judge PyTorch derivatives by an independent JAX oracle.

The names load what they need when they are first used, so that pytest, which imports every plugin, stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity_tests.harness.candidates.array_candidate import ArrayCandidate as ArrayCandidate
    from parity_tests.harness.candidates.jax_candidate import JaxCandidate as JaxCandidate
    from parity_tests.harness.candidates.torch_candidate import Candidate as Candidate
    from parity_tests.harness.candidates.warp_candidate import WarpCandidate as WarpCandidate
    from parity_tests.harness.crosscheck import assert_parity as assert_parity
    from parity_tests.harness.crosscheck import crosscheck as crosscheck
    from parity_tests.harness.findings import Verdict as Verdict
    from parity_tests.harness.numbers.contracts import Arithmetic as Arithmetic
    from parity_tests.harness.numbers.tolerances import to_tolerance as to_tolerance
    from parity_tests.harness.oracle.oracle import OracleError as OracleError
    from parity_tests.harness.report.report import ParityError as ParityError
    from parity_tests.harness.report.report import Report as Report
    from parity_tests.harness.specs.domains import Domain as Domain
    from parity_tests.harness.specs.domains import integer as integer
    from parity_tests.harness.specs.size_rules import AxisSize as AxisSize
    from parity_tests.harness.specs.spec import OpSpec as OpSpec

_MODULES = {
    "Arithmetic": "numbers.contracts",
    "ArrayCandidate": "candidates.array_candidate",
    "AxisSize": "specs.size_rules",
    "Candidate": "candidates.torch_candidate",
    "Domain": "specs.domains",
    "JaxCandidate": "candidates.jax_candidate",
    "OpSpec": "specs.spec",
    "OracleError": "oracle.oracle",
    "ParityError": "report.report",
    "Report": "report.report",
    "Verdict": "findings",
    "WarpCandidate": "candidates.warp_candidate",
    "assert_parity": "crosscheck",
    "crosscheck": "crosscheck",
    "integer": "specs.domains",
    "to_tolerance": "numbers.tolerances",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.harness.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
