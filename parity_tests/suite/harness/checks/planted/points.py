"""Wrong values, or derivatives, at a special point only."""

from __future__ import annotations

import torch

from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function
from parity_tests.suite.mistakes import Case, Mistake


def _zero_over_zero(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar * (x / x), y_bar


def _infinity_over_infinity(x, y):
    first, second = pair(x, y)
    return torch.exp(x) / torch.exp(x) * first, second


CASES = (
    Case(
        MADE_PAIR,
        pair,
        {
            "0 / 0 at zero": Mistake(
                pair_function(backward=_zero_over_zero).apply, "points", passes=("forward", "vjp", "jvp")
            ),
            "inf / inf": Mistake(_infinity_over_infinity, "points", passes=("forward",)),
        },
    ),
)
