"""Fake quantization. The derivatives are those of PyTorch's surrogate: rounding counts as the identity.

The values are steps, whose derivative is 0. PyTorch documents another one in its place, the straight-through estimator:
that of the same expression without the rounding, which is constant where the integer is out of bounds.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._axes import axis_of

Array = jax.Array


def _rounded(x: Array) -> Array:
    """x rounded to even, with the derivative 1."""
    return x + lax.stop_gradient(jnp.where(jnp.isfinite(x), jnp.round(x) - x, jnp.zeros_like(x)))


def _quantized(integer: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int) -> tuple[Array, Array]:
    """The number that an integer within the bounds stands for, or the nearest bound; and where it is within them."""
    inside = (integer >= quant_min) & (integer <= quant_max)
    bound = jnp.where(integer < quant_min, float(quant_min), float(quant_max)).astype(integer.dtype)
    return (jnp.where(inside, integer, bound) - zero_point) * scale, inside


def fake_quantize_per_tensor_affine_cachemask(
    self: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """self to the nearest multiple of the scale, of those that the integers in the bounds stand for; and where it is.

    Where self is within the bounds its derivative is 1, elsewhere 0.
    """
    x = jnp.asarray(self)
    step, zero = (jnp.asarray(each).astype(x.dtype) for each in (scale, zero_point))
    return _quantized(_rounded(x / step) + zero, step, zero, quant_min, quant_max)


def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    fake_quant_enabled: ArrayLike,
    quant_min: int,
    quant_max: int,
) -> tuple[Array, Array]:
    """fake_quantize_per_tensor_affine_cachemask if it is enabled; self if not."""
    x = jnp.asarray(self)
    found, inside = fake_quantize_per_tensor_affine_cachemask(x, scale, zero_point, quant_min, quant_max)
    enabled = jnp.asarray(fake_quant_enabled).reshape(()) != 0
    return jnp.where(enabled, found, x), inside | ~enabled


def fake_quantize_per_channel_affine_cachemask(
    self: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, axis: int, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """fake_quantize_per_tensor_affine_cachemask, with a scale and a zero point for each index of an axis.

    An integer zero point is added to what is rounded, as there; one that is no integer is added before it is rounded.
    """
    x = jnp.asarray(self)
    shape = tuple(-1 if i == axis_of(x, axis) else 1 for i in range(x.ndim))
    step, zero = (jnp.asarray(each).astype(x.dtype).reshape(shape) for each in (scale, zero_point))
    within = jnp.issubdtype(jnp.asarray(zero_point).dtype, jnp.floating)
    integer = _rounded(x / step + zero) if within else _rounded(x / step) + zero
    return _quantized(integer, step, zero, quant_min, quant_max)


OPERATORS = {
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": (
        _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    ),
}
