"""Rounding to integers and what is left, steps, and numbers in place of NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._promotion import is_complex, promoted

Array = jax.Array


def floor_divide(self: ArrayLike, other: ArrayLike) -> Array:
    """self / other, rounded down; its derivative is 0."""
    x, y = (lax.stop_gradient(each) for each in promoted(self, other))
    return jnp.floor_divide(x, y)


def remainder(self: ArrayLike, other: ArrayLike) -> Array:
    """self - other floor(self / other), with the sign of other."""
    x, y = promoted(self, other)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.remainder(x, y)
    exact = jnp.remainder(lax.stop_gradient(x), lax.stop_gradient(y))
    floored = lax.stop_gradient(jnp.round((x - exact) / y))
    return exact + (x - lax.stop_gradient(x)) - (y - lax.stop_gradient(y)) * floored


def fmod(self: ArrayLike, other: ArrayLike) -> Array:
    """self - other trunc(self / other), with the sign of self."""
    x, y = promoted(self, other)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.fmod(x, y)
    exact = jnp.fmod(lax.stop_gradient(x), lax.stop_gradient(y))
    truncated = lax.stop_gradient(jnp.round((x - exact) / y))
    return exact + (x - lax.stop_gradient(x)) - (y - lax.stop_gradient(y)) * truncated


def ceil(self: ArrayLike) -> Array:
    """The least integer that is not less."""
    x = jnp.asarray(self)
    return jnp.ceil(x).astype(x.dtype)


def floor(self: ArrayLike) -> Array:
    """The largest integer that is not larger."""
    x = jnp.asarray(self)
    return jnp.floor(x).astype(x.dtype)


def trunc(self: ArrayLike) -> Array:
    """The integer towards 0."""
    x = jnp.asarray(self)
    return jnp.trunc(x).astype(x.dtype)


def round(self: ArrayLike, *, decimals: int = 0) -> Array:
    """The nearest integer, or number with so many decimals, the even one of two; its derivative is 0."""
    x = jnp.asarray(self)
    return lax.stop_gradient(jnp.round(x, decimals)).astype(x.dtype)


def frac(self: ArrayLike) -> Array:
    """self - trunc(self)."""
    x = jnp.asarray(self)
    return x - lax.stop_gradient(jnp.trunc(x))


def frexp(self: ArrayLike) -> tuple[Array, Array]:
    """m and e, an int32, with self = m 2**e and 0.5 <= |m| < 1; of 0 and of what is not finite, self and 0.

    Between two powers of two e is constant, so that the derivative of m is 2**-e. On a CPU XLA takes subnormal numbers
    for 0.
    """
    x = jnp.asarray(self)
    ordinary = jnp.isfinite(x) & (x != 0)
    e = jnp.where(ordinary, jnp.frexp(lax.stop_gradient(x))[1], 0)
    # In two steps, since 2**-e of the smallest numbers is infinite.
    one, half = jnp.ones_like(x), e // 2
    return x * jnp.ldexp(one, -half) * jnp.ldexp(one, half - e), e.astype(np.int32)


def heaviside(self: ArrayLike, values: ArrayLike) -> Array:
    """0 of negative numbers, 1 of positive ones, values of 0; its derivative is 0."""
    x, y = (lax.stop_gradient(each) for each in promoted(self, values))
    return jnp.where(x == 0, y, (x > 0).astype(x.dtype))


def nextafter(self: ArrayLike, other: ArrayLike) -> Array:
    """The next number of the format on the way to other; its derivative is left at 0."""
    x, y = (lax.stop_gradient(each) for each in promoted(self, other))
    return jnp.nextafter(x, y)


def nan_to_num(
    self: ArrayLike, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """self with numbers in place of NaN and of infinities, whose derivatives are 0."""
    x = jnp.asarray(self)
    if is_complex(x):
        return lax.complex(nan_to_num(x.real, nan, posinf, neginf), nan_to_num(x.imag, nan, posinf, neginf))
    limits = jnp.finfo(x.dtype)
    x = jnp.where(jnp.isnan(x), jnp.asarray(0.0 if nan is None else nan, x.dtype), x)
    x = jnp.where(jnp.isposinf(x), jnp.asarray(limits.max if posinf is None else posinf, x.dtype), x)
    return jnp.where(jnp.isneginf(x), jnp.asarray(limits.min if neginf is None else neginf, x.dtype), x)
