"""What is right up to 4096."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function


def _first_rows(x, y):
    """A buffer of 4096 rows."""
    first, second = pair(x, y)
    return first, torch.where(torch.arange(len(x))[:, None] < 4096, second, 0.0)


def _first_columns(x, y, *cotangents):
    """A grid of 4096 columns in the backward alone."""
    x_bar, y_bar = pair_backward(x, y, *cotangents)
    return x_bar, torch.where(torch.arange(x.shape[1]) < 4096, y_bar, 0.0)


_PASSES = ("forward", "vjp", "layouts")
CASES = (
    Operator(
        MADE_PAIR,
        pair,
        {
            "rows past 4096 are 0": Mistake(
                pair_function(forward=_first_rows).apply, "large_sizes", passes=("forward", "layouts")
            ),
            "a gradient of columns past 4096 is 0": Mistake(
                pair_function(backward=_first_columns).apply, "large_sizes", passes=_PASSES
            ),
        },
    ),
)
