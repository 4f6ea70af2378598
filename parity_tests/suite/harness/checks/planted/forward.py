"""A wrong value."""

from __future__ import annotations

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair


def _off_by_a_thousandth(x, y):
    first, second = pair(x, y)
    return first, 1.001 * second


CASES = (Operator(PAIR, pair, {"one output off by a thousandth": Mistake(_off_by_a_thousandth, "forward")}),)
