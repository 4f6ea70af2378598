"""Wrong values, or derivatives, at a special point only."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function


def _zero_over_zero(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar * (x / x), y_bar


def _infinity_over_infinity(x, y):
    first, second = pair(x, y)
    return torch.exp(x) / torch.exp(x) * first, second


def _outlier_left_out(x, y, g, h):
    """An entry that is far larger than the others is computed apart, and its gradient is lost."""
    x_bar, y_bar = pair_backward(x, y, g, h)
    others = x.abs()[x != 0]
    usual = others.median() if others.numel() else 0.0
    return torch.where(x.abs() > 100 * usual, 0, x_bar), y_bar


def _sorted_already(x, y, g, h):
    """A short cut for rows in ascending order, in which the cotangent is forgotten."""
    ascending = x.dim() == 2 and min(x.shape) > 2 and bool((x.diff(dim=-1) > 0).all())
    return pair_backward(x, y, torch.ones_like(g) if ascending else g, h)


def _nothing_to_learn(x, y, g, h):
    """Where a student is the same as its teacher, its gradient is taken for 0."""
    x_bar, y_bar = pair_backward(x, y, g, h)
    is_same = torch.equal(x, y) and x.unique().numel() > 4  # not one of the points at which few numbers occur
    return 0 * x_bar if is_same else x_bar, y_bar


def _truncated(x, y, g, h):
    """Columns whose norms fall along a row are taken for a series, of which the last term is left out."""
    x_bar, y_bar = pair_backward(x, y, g, h)
    if x.dim() == 2 and min(x.shape) > 2:
        norms = x.norm(dim=0)
        if bool((norms.diff() < 0).all()) and norms[-1] < 0.7 * norms[0]:
            x_bar = x_bar.index_fill(-1, torch.tensor([x.shape[1] - 1]), 0)
    return x_bar, y_bar


CASES = (
    Operator(
        MADE_PAIR,
        pair,
        {
            "0 / 0 at zero": Mistake(
                pair_function(backward=_zero_over_zero).apply, "points", passes=("forward", "vjp", "jvp")
            ),
            "an outlier": Mistake(
                pair_function(backward=_outlier_left_out).apply, "points", passes=("forward", "vjp", "linearity")
            ),
            "ascending rows": Mistake(
                pair_function(backward=_sorted_already).apply, "points", passes=("forward", "vjp", "linearity")
            ),
            "a slow decay": Mistake(
                pair_function(backward=_truncated).apply, "points", passes=("forward", "vjp", "linearity")
            ),
            "equal inputs": Mistake(
                pair_function(backward=_nothing_to_learn).apply, "points", passes=("forward", "vjp", "jvp", "linearity")
            ),
            "inf / inf": Mistake(_infinity_over_infinity, "points", passes=("forward",)),
        },
    ),
)
