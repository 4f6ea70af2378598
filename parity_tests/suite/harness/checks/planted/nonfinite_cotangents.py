"""Overflow that is hidden from whoever scales a loss."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, normal, pair, pair_backward, pair_function, unary_function

_LARGEST = 1e300


def _repaired(x, y, *cotangents):
    return pair_backward(x, y, *(w.nan_to_num(0.0, 0.0, 0.0) for w in cotangents))


def _repaired_afterwards(x, y, *cotangents):
    return tuple(g.nan_to_num(0.0) for g in pair_backward(x, y, *cotangents))


def _only_finite_rows(x, y, *cotangents):
    """Skips the examples whose cotangents are no numbers."""
    finite = torch.stack([w.isfinite().all(1, keepdim=True) for w in cotangents]).all(0)
    return tuple(torch.where(finite, g, 0.0) for g in pair_backward(x, y, *cotangents))


def _clamped(x, y, *cotangents):
    return pair_backward(x, y, *(w.clamp(-_LARGEST, _LARGEST).nan_to_num() for w in cotangents))


# Right codes that select: what is not selected leaves no trace, whatever its cotangent is.
RECTIFIED = OpSpec("rectified", primal=lambda x: jnp.where(x > 0, x * x, 0 * x), inputs=(normal(3, 4),))


def _masked(x, y_bar):
    return torch.where(x > 0, 2 * x * y_bar, 0.0)


_PASSES = ("vjp", "linearity", "layouts")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "nan_to_num of the cotangents": Mistake(
                pair_function(backward=_repaired).apply, "nonfinite_cotangents", passes=_PASSES
            ),
            "nan_to_num of the gradients": Mistake(
                pair_function(backward=_repaired_afterwards).apply, "nonfinite_cotangents", passes=_PASSES
            ),
            "rows that are not finite are skipped": Mistake(
                pair_function(backward=_only_finite_rows).apply, "nonfinite_cotangents", passes=_PASSES
            ),
            "clamped": Mistake(pair_function(backward=_clamped).apply, "nonfinite_cotangents", passes=_PASSES),
        },
    ),
    Operator(
        RECTIFIED,
        unary_function(lambda x: torch.where(x > 0, x * x, 0.0), _masked),
        {
            "masked where the cotangent is not finite": Mistake(
                unary_function(
                    lambda x: torch.where(x > 0, x * x, 0.0),
                    lambda x, y_bar: torch.where((x > 0) & y_bar.isfinite(), 2 * x * y_bar, 0.0),
                ),
                "nonfinite_cotangents",
                passes=_PASSES,
            )
        },
    ),
)
