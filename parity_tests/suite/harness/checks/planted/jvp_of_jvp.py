"""A wrong second derivative in forward mode."""

from __future__ import annotations

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_jvp


def _linearised(x, y):
    """Right in value and first derivative; its second derivatives are those of a linear function."""
    x0, y0 = x.detach(), y.detach()
    values = (y.detach() for y in pair(x0, y0))
    return tuple(value + slope for value, slope in zip(values, pair_jvp(x0, y0, x - x0, y - y0), strict=True))


_PASSES = ("forward", "vjp", "jvp", "adjoint")
CASES = (Operator(PAIR, pair, {"linearised": Mistake(_linearised, "jvp_of_jvp", passes=_PASSES)}),)
