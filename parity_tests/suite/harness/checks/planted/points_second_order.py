"""Wrong second derivatives at a special point only."""

from __future__ import annotations

from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function
from parity_tests.suite.mistakes import Case, Mistake


def _zero_times_infinity(x, y, g, h):
    """The derivative of 0 * sqrt(|x|) is 0 * infinity at 0."""
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar + 0 * x.abs().sqrt(), y_bar


_CALL = pair_function(backward=_zero_times_infinity).apply
CASES = (
    Case(
        MADE_PAIR,
        pair,
        {"0 * inf at zero": Mistake(_CALL, "points_second_order", passes=("vjp", "vjp_of_vjp", "points"))},
    ),
)
