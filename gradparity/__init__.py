"""Have the derivatives of an operator judged by an independent JAX implementation.

`crosscheck(candidate, spec)` compares a candidate with the JAX function of an `OpSpec` and returns a `Report`;
`assert_parity` does the same in a test. The work is done in `parity_tests`, whose names these are; they load what they
need when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import parity_tests

if TYPE_CHECKING:
    from parity_tests import Arithmetic as Arithmetic
    from parity_tests import ArrayCandidate as ArrayCandidate
    from parity_tests import AxisSize as AxisSize
    from parity_tests import Candidate as Candidate
    from parity_tests import Domain as Domain
    from parity_tests import JaxCandidate as JaxCandidate
    from parity_tests import OpSpec as OpSpec
    from parity_tests import OracleError as OracleError
    from parity_tests import ParityError as ParityError
    from parity_tests import Report as Report
    from parity_tests import Verdict as Verdict
    from parity_tests import WarpCandidate as WarpCandidate
    from parity_tests import assert_parity as assert_parity
    from parity_tests import crosscheck as crosscheck
    from parity_tests import integer as integer
    from parity_tests import to_tolerance as to_tolerance

__all__ = [
    "Arithmetic",
    "ArrayCandidate",
    "AxisSize",
    "Candidate",
    "Domain",
    "JaxCandidate",
    "OpSpec",
    "OracleError",
    "ParityError",
    "Report",
    "Verdict",
    "WarpCandidate",
    "assert_parity",
    "crosscheck",
    "integer",
    "to_tolerance",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(parity_tests, name)


def __dir__() -> list[str]:
    return __all__
