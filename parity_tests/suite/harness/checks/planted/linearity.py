"""A backward that is not linear in its cotangents, at sizes that other checks do not try."""

from __future__ import annotations

import torch

from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function
from parity_tests.suite.mistakes import Case, Mistake


def _clipped(x, y, g, h):
    return pair_backward(x, y, g.clamp(-500, 500), h.clamp(-500, 500))


def _small_skipped(x, y, g, h):
    """A small cotangent is taken for zero."""
    return pair_backward(x, y, g, 0 * h if (h.abs() < 1e-2).all() else h)


def _one_ulp_more_for_large(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return torch.where(g.abs() > 100, torch.nextafter(x_bar, 2 * x_bar), x_bar), y_bar


def _nan_for_zero(x, y, g, h):
    return pair_backward(x, y, g / g.abs() * g.abs(), h)


BACKWARDS = {
    "clipped": _clipped,
    "small cotangents skipped": _small_skipped,
    "a unit in the last place, for large cotangents": _one_ulp_more_for_large,
    "0/0 at zero": _nan_for_zero,
}
_PASSES = ("forward", "vjp", "purity")
CASES = (
    Case(
        PAIR,
        pair,
        {
            name: Mistake(pair_function(backward=backward).apply, "linearity", passes=_PASSES)
            for name, backward in BACKWARDS.items()
        },
    ),
)
