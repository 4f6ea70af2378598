"""Helpers of several families: reductions of losses, gathers along an axis, p-norms, VJPs with PyTorch's conjugate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._promotion import is_complex

Array = jax.Array
Ints = int | Sequence[int]


def reduced(x: Array, reduction: int) -> Array:
    """Return the loss of each entry (0), its mean (1) or its sum (2)."""
    if reduction not in (0, 1, 2):
        raise ValueError(f"reduction is {reduction!r}; give 0 for none, 1 for the mean, 2 for the sum")
    if reduction == 1:
        return jnp.mean(x)
    return jnp.sum(x) if reduction == 2 else x


def per_axis(sizes: Ints, axes: int) -> tuple[int, ...]:
    """Return one number for each axis: one that is given for all, or a sequence of them."""
    found = (sizes,) if isinstance(sizes, int) else tuple(int(n) for n in sizes)
    if len(found) not in (1, axes):
        raise ValueError(f"expected one number, or one for each of {axes} axes, got {found}")
    return found * axes if len(found) == 1 else found


def take(x: Array, index: np.ndarray, axis: int) -> Array:
    """Return x with the axes of an index, which is within the bounds, in place of an axis."""
    return jnp.take(x, jnp.asarray(index), axis=axis, mode="clip")


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def read_at(x: Array, index: Array, axis: int, value: Array) -> Array:
    """Return `value`, which x has at the indices along an axis; the derivative is that of these entries.

    Read from x at an index that rounding may change, it would have the bound of all entries between.
    """
    return value


@read_at.defjvp
def _(axis: int, primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (x, index, value), (x_dot, *_) = primals, tangents
    return read_at(x, index, axis, value), jnp.take_along_axis(x_dot, index, axis=axis)


def weighted(x: Array, index: np.ndarray, part: np.ndarray, axis: int, weight: Array | None = None) -> Array:
    """Return the sums Σₖ weight[i, k] x[index[i, k]] along an axis, over the k of a mask; a weight is 1 by default."""
    axis %= x.ndim
    shape = (1,) * axis + part.shape + (1,) * (x.ndim - axis - 1)
    terms = take(x, np.where(part, index, 0), axis)
    terms = jnp.where(jnp.asarray(part.reshape(shape)), terms, jnp.zeros_like(terms))
    if weight is not None:
        terms = terms * weight.reshape(shape).astype(x.dtype)
    return terms.sum(axis + 1).astype(x.dtype)


def positive_part(x: Array) -> Array:
    """max(x, 0), with the derivative 0 at 0."""
    return jnp.where(x > 0, x, jnp.where(jnp.isnan(x), x, jnp.zeros_like(x)))


def magnitude(x: Array) -> Array:
    """|x|, with the derivative 0 at 0."""
    zero = x == 0
    size = jnp.abs(jnp.where(zero, jnp.ones_like(x), x))
    return jnp.where(zero, jnp.zeros_like(size), size)


def p_norm(x: Array, p: float, axes: Sequence[int], keepdims: bool = False) -> Array:
    """The p-norm along axes; derivatives are 0 at zeros, and those of the largest of several are shared."""
    axes = tuple(axes)
    if p == 2:
        squares = (x.real**2 + x.imag**2 if is_complex(x) else x**2).sum(axes, keepdims=keepdims)
        zero = squares == 0
        return jnp.where(zero, jnp.zeros_like(squares), jnp.sqrt(jnp.where(zero, jnp.ones_like(squares), squares)))
    sizes = magnitude(x)
    if p == 0:
        return lax.stop_gradient((sizes != 0).astype(sizes.dtype).sum(axes, keepdims=keepdims))
    if p == 1:
        return sizes.sum(axes, keepdims=keepdims)
    if abs(p) == float("inf"):
        return (jnp.max if p > 0 else jnp.min)(sizes, axes, keepdims=keepdims)
    zero = sizes == 0
    powers = jnp.where(zero, jnp.zeros_like(sizes), jnp.where(zero, jnp.ones_like(sizes), sizes) ** p)
    total = powers.sum(axes, keepdims=keepdims)
    return jnp.where(total == 0, jnp.zeros_like(total), jnp.where(total == 0, jnp.ones_like(total), total) ** (1 / p))


def pullback(function: Callable[..., Any], primals: Sequence[Array], cotangent: ArrayLike) -> tuple[Array, ...]:
    """JAX's VJP, with the cotangent broadcast, and of complex numbers the conjugate one that PyTorch has."""
    out, vjp = jax.vjp(function, *primals)
    received = jnp.broadcast_to(jnp.asarray(cotangent), out.shape).astype(out.dtype)
    grads = vjp(received.conj() if is_complex(received) else received)
    return tuple(g.conj() if is_complex(g) else g for g in grads)


def squared(x: Array) -> Array:
    """|x|² without an absolute value."""
    return x.real**2 + x.imag**2 if is_complex(x) else x * x


def norm_of(size: Array, order: float, axes: tuple[int, ...], keepdim: bool) -> Array:
    """The norm of an order other than 2, of absolute values; the derivative is 0 where the norm is 0."""
    if order == float("inf"):
        return jnp.max(size, axis=axes, keepdims=keepdim)
    if order == -float("inf"):
        return jnp.min(size, axis=axes, keepdims=keepdim)
    if order == 0:
        return jnp.sum((size != 0).astype(size.dtype), axis=axes, keepdims=keepdim)
    if order == 1:
        return jnp.sum(size, axis=axes, keepdims=keepdim)
    zero = size == 0
    safe = jnp.where(zero, jnp.ones_like(size), size)
    powers = jnp.where(zero, jnp.zeros_like(size) if order > 0 else jnp.full_like(size, jnp.inf), safe**order)
    total = jnp.sum(powers, axis=axes, keepdims=keepdim)
    nothing = (total == 0) | jnp.isinf(total)
    inside = jnp.where(nothing, jnp.ones_like(total), total) ** (1 / order)
    edge = lax.stop_gradient(jnp.where(total == 0, 0.0, total) ** (1 / order))  # its slope is infinite or NaN
    return jnp.where(nothing, edge, inside)
