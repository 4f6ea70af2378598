"""A backward that is not linear in its cotangents, at sizes that other checks do not try."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function


def _clipped(x, y, g, h):
    return pair_backward(x, y, g.clamp(-500, 500), h.clamp(-500, 500))


def _small_skipped(x, y, g, h):
    """A small cotangent is taken for zero."""
    return pair_backward(x, y, g, 0 * h if (h.abs() < 1e-2).all() else h)


def _one_ulp_more_for_large(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return torch.where(g.abs() > 100, torch.nextafter(x_bar, 2 * x_bar), x_bar), y_bar


def _stops_at_a_zero_row(x, y, g, h):
    """A kernel that is done at the first row without a cotangent, as if all rows after it were padding."""
    rows = (g != 0).reshape(len(g), -1).any(1).cumprod(0).bool() if g.dim() else torch.ones((), dtype=torch.bool)
    return pair_backward(x, y, torch.where(rows.reshape(-1, *[1] * (g.dim() - 1)), g, 0), h)


def _one_hot_taken_for_zero(x, y, g, h):
    """Rows with a single cotangent are taken for those of padding."""
    single = (g != 0).sum(-1, keepdim=True) == 1
    return pair_backward(x, y, torch.where(single, 0, g) if g.dim() and g.shape[-1] > 1 else g, h)


def _nan_for_zero(x, y, g, h):
    return pair_backward(x, y, g / g.abs() * g.abs(), h)


def by_logarithms(x, y, g, h):
    """A right backward whose arithmetic is not that of sums and products: it takes logarithms of its cotangents."""
    return pair_backward(x, y, *(w.sign() * w.abs().log().exp() for w in (g, h)))


def _clipped_logarithms(x, y, g, h):
    return by_logarithms(x, y, g.clamp(-500, 500), h.clamp(-500, 500))


BACKWARDS = {
    "clipped": _clipped,
    "clipped, by logarithms": _clipped_logarithms,
    "small cotangents skipped": _small_skipped,
    "a unit in the last place, for large cotangents": _one_ulp_more_for_large,
    "0/0 at zero": _nan_for_zero,
    "done at a row of zeros": _stops_at_a_zero_row,
    "one-hot rows taken for padding": _one_hot_taken_for_zero,
}
_PASSES = ("forward", "vjp", "purity")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            name: Mistake(pair_function(backward=backward).apply, "linearity", passes=_PASSES)
            for name, backward in BACKWARDS.items()
        },
    ),
)
