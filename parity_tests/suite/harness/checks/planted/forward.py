"""A wrong value."""

from __future__ import annotations

from parity_tests.suite.harness._ops import PAIR, pair
from parity_tests.suite.mistakes import Case, Mistake


def _off_by_a_thousandth(x, y):
    first, second = pair(x, y)
    return first, 1.001 * second


CASES = (Case(PAIR, pair, {"one output off by a thousandth": Mistake(_off_by_a_thousandth, "forward")}),)
