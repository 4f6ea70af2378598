"""A JVP and a VJP that are not each other's transpose."""

from __future__ import annotations

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_function, pair_jvp


def _doubled(*args):
    return tuple(2 * y for y in pair_jvp(*args))


_CALL = pair_function(jvp=_doubled).apply
CASES = (Operator(PAIR, pair, {"a factor in the jvp": Mistake(_CALL, "adjoint", passes=("forward", "vjp"))}),)
