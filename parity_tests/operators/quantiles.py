"""Quantiles: positions in floating-point numbers, which may be elements but for rounding."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator


def _between(x: torch.Tensor, low: int, high: int, weight: float) -> torch.Tensor:
    """The quantile of the sorted elements; where the weight is a number of the format is not said."""
    y = x.to(torch.promote_types(x.dtype, torch.float32)).sort(-1).values
    return (y[..., low] * (1 - weight) + y[..., high] * weight).to(x.dtype)


def _quantile(x: torch.Tensor, q: float, shift: int = 0, swapped: bool = False) -> torch.Tensor:
    n = x.shape[-1]
    position = q * (n - 1)
    low = int(position)
    weight = position - low
    low = min(low + shift, n - 1)
    return _between(x, low, min(low + 1, n - 1), 1 - weight if swapped else weight)


quantile = Operator(
    OpSpec(
        "quantile",
        lambda x, q: jnp.nanquantile(x, q, axis=-1),
        "(b,n)->(b)",
        params={"q": 0.3},  # 0.3 * 10 is 3 but for rounding
        sizes="n = 11",
    ),
    _quantile,
    {
        "weights_swapped": Mistake(lambda x, q: _quantile(x, q, swapped=True), "forward", "float16"),
        "next_element": Mistake(lambda x, q: _quantile(x, q, shift=1), "forward", "bfloat16"),
        "next_gradient": Mistake(lambda x, q: _quantile(x, q, shift=1), "vjp", "float32"),
    },
)
