"""What a large problem has and the part of it that all other checks look at has not."""

from __future__ import annotations

from dataclasses import replace

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, normal, pair, pair_backward, pair_function

SPEC = replace(PAIR, given_size=(normal(40, 30, seed=2), normal(40, 30, seed=3)))
_MOST = 64  # entries that the grids of the wrong versions reach


def _of_a_small_grid(y: torch.Tensor) -> torch.Tensor:
    """The result of a kernel whose grid reaches the first entries only: those after them are never written."""
    written = torch.zeros(y.numel(), dtype=y.dtype)
    written[:_MOST] = y.flatten()[:_MOST]
    return written.view(y.shape)


def _forward(x, y):
    first, second = pair(x, y)
    return _of_a_small_grid(first), second


def _backward(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar, _of_a_small_grid(y_bar)


CASES = (
    Operator(
        SPEC,
        pair,
        {
            "a grid that reaches a part of the outputs": Mistake(
                pair_function(forward=_forward).apply, "given_size", passes=("forward", "vjp", "jvp")
            ),
            "a grid of the backward that reaches a part": Mistake(
                pair_function(backward=_backward).apply, "given_size", passes=("forward", "vjp", "jvp")
            ),
        },
    ),
)
