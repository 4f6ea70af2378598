"""An error of the last bit."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function


def _one_bit_more(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return torch.nextafter(x_bar, 2 * x_bar), y_bar


_CALL = pair_function(backward=_one_bit_more).apply
CASES = (
    Operator(
        MADE_PAIR, pair, {"one bit too much": Mistake(_CALL, "exact", passes=("forward", "vjp", "jvp", "points"))}
    ),
)
