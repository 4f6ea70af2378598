"""Sums, means, norms and extrema along axes.

Conventions at ties: `amax`, `amin` and those of a whole array share the derivative among the largest; `max.dim`,
`median` and the like give it to the entry whose index they return.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from jax_ref.aten._arrays import norm_of, read_at, squared
from jax_ref.aten._axes import Axes, axes_of, axis_of
from jax_ref.aten._promotion import floating, is_complex, promoted

Array = jax.Array


def _summed_dtype(x: Array, dtype: Any) -> Array:
    if dtype is not None:
        return x.astype(dtype)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jax.dtypes.canonicalize_dtype(np.int64))


def sum(self: ArrayLike, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The sum along axes; along all if none is given.

    self (*), of any shape; the result is without the axes dim, or has them of size 1 (keepdim).

    >>> aten.sum(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([7., 8.], dtype=float32)
    """
    x = jnp.asarray(self)
    return jnp.sum(_summed_dtype(x, dtype), axis=axes_of(x, dim), keepdims=keepdim)


def nansum(self: ArrayLike, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The sum of what is no NaN."""
    x = jnp.asarray(self)
    return sum(jnp.where(jnp.isnan(x), jnp.zeros_like(x), x), dim, keepdim, dtype=dtype)


def mean(self: ArrayLike, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The mean along axes.

    self (*); the result is without the axes dim, or has them of size 1 (keepdim).

    >>> aten.mean(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([2.3333335, 2.6666667], dtype=float32)
    """
    x = jnp.asarray(self)
    axes = axes_of(x, dim)
    return jnp.mean(_constant_if_empty(x if dtype is None else x.astype(dtype), axes), axis=axes, keepdims=keepdim)


def _constant_if_empty(x: Array, axes: Sequence[int]) -> Array:
    """x, of which what is divided by a number of no entries has the derivative 0 in every order, not 0/0."""
    return x if math.prod(x.shape[axis] for axis in axes) else lax.stop_gradient(x)


def nanmean(self: ArrayLike, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The mean of what is no NaN."""
    count = sum(~jnp.isnan(jnp.asarray(self)), dim, keepdim)
    total = nansum(self, dim, keepdim, dtype=dtype)
    return total / count.astype(total.real.dtype)


def prod(self: ArrayLike, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The product of all entries, or along an axis; its derivative never divides by an entry.

    >>> aten.prod(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([8., 0.], dtype=float32)
    """
    x = jnp.asarray(self)
    x = _summed_dtype(x, dtype)
    if dim is None:
        return _product(x.reshape(-1)).reshape((1,) * x.ndim if keepdim else ())
    axis = axis_of(x, dim)
    if x.ndim == 0:
        return x
    product = _product(jnp.moveaxis(x, axis, -1))
    return jnp.expand_dims(product, axis) if keepdim else product


def _product(x: Array) -> Array:
    """The product along the last axis, pair by pair, so that every order of derivatives is a product of entries."""
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)
        x = x[..., ::2] * x[..., 1::2]
    return x[..., 0] if x.shape[-1] else jnp.ones(x.shape[:-1], x.dtype)


def var(
    self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Array:
    """The variance; `correction` is what is taken off the number of entries, 1 if unbiased.

    >>> aten.var(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([2.3333333, 6.3333335], dtype=float32)
    """
    x = jnp.asarray(self)
    axes = axes_of(x, dim)
    x = _constant_if_empty(x, axes)
    off = (1.0 if unbiased else 0.0) if correction is None else float(correction)
    count = math.prod(x.shape[axis] for axis in axes)
    deviation = x - jnp.mean(x, axis=axes, keepdims=True)
    squares = deviation.real**2 + deviation.imag**2 if is_complex(x) else deviation * deviation
    return jnp.sum(squares, axis=axes, keepdims=keepdim) / jnp.asarray(builtins.max(count - off, 0.0), squares.dtype)


def _var_correction(
    self: ArrayLike, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Array:
    """The variance, with the overload's arguments."""
    return var(self, dim, True, keepdim, correction=1.0 if correction is None else correction)


def _root(x: Array) -> Array:
    """√x with the derivative 0 at 0, where a standard deviation or a norm has none."""
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x), jnp.sqrt(jnp.where(zero, jnp.ones_like(x), x)))


def std(self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Array:
    """The standard deviation; its derivative is 0 where all entries are equal.

    >>> aten.std(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1, correction=0)
    Array([1.2472191, 2.0548048], dtype=float32)
    """
    return _root(var(self, dim, unbiased, keepdim))


def _std_correction(
    self: ArrayLike, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> Array:
    """The standard deviation, with the overload's arguments."""
    return _root(_var_correction(self, dim, correction=correction, keepdim=keepdim))


def var_mean(
    self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Array, Array]:
    """The variance and the mean; `correction` is what is taken off the number of entries, 1 if unbiased."""
    return var(self, dim, unbiased, keepdim, correction=correction), mean(self, dim, keepdim)


def std_mean(
    self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Array, Array]:
    """The standard deviation and the mean; `correction` is what is taken off the number of entries, 1 if unbiased."""
    variance, center = var_mean(self, dim, unbiased, keepdim, correction=correction)
    return _root(variance), center


def amax(self: ArrayLike, dim: Axes = (), keepdim: bool = False) -> Array:
    """The largest entries; equal ones share the derivative.

    >>> aten.amax(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([4., 5.], dtype=float32)
    """
    x = jnp.asarray(self)
    return jnp.max(x, axis=axes_of(x, dim), keepdims=keepdim)


def amin(self: ArrayLike, dim: Axes = (), keepdim: bool = False) -> Array:
    """The smallest entries; equal ones share the derivative."""
    x = jnp.asarray(self)
    return jnp.min(x, axis=axes_of(x, dim), keepdims=keepdim)


def aminmax(self: ArrayLike, *, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    """The smallest and the largest entries; equal ones share the derivative."""
    axes = () if dim is None else (dim,)
    return amin(self, axes, keepdim), amax(self, axes, keepdim)


def argmax(self: ArrayLike, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the largest entry, of the first NaN if there is one.

    >>> aten.argmax(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([2, 2], dtype=int32)
    """
    x = jnp.asarray(self)
    axis = None if dim is None else axis_of(x, dim)
    return jnp.argmax(x, axis=axis if x.ndim else None, keepdims=keepdim)


def argmin(self: ArrayLike, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the smallest entry, of the first NaN if there is one."""
    x = jnp.asarray(self)
    axis = None if dim is None else axis_of(x, dim)
    return jnp.argmin(x, axis=axis if x.ndim else None, keepdims=keepdim)


def _extremum(x: Array, dim: int, keepdim: bool, largest: bool) -> tuple[Array, Array]:
    """The largest or smallest entries of an axis, and their indices."""
    index = (argmax if largest else argmin)(x, dim, True)
    if x.ndim == 0:
        return x, jnp.zeros((), index.dtype)
    value = (jnp.max if largest else jnp.min)(lax.stop_gradient(x), axis=dim, keepdims=True)
    found = read_at(x, index, dim, value)
    return (found, index) if keepdim else (jnp.squeeze(found, dim), jnp.squeeze(index, dim))


def max(self: ArrayLike, dim: Any = None, keepdim: bool = False) -> Array | tuple[Array, Array]:
    """The largest entry; along an axis with its index, which alone has the derivative. Of two arrays: `maximum`.

    >>> aten.max(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)[1]
    Array([2, 2], dtype=int32)
    """
    x = jnp.asarray(self)
    if dim is None:
        return jnp.max(x)
    if not isinstance(dim, int):
        return jnp.maximum(*floating(x, dim))
    return _extremum(x, dim, keepdim, largest=True)


def min(self: ArrayLike, dim: Any = None, keepdim: bool = False) -> Array | tuple[Array, Array]:
    """The smallest entry; along an axis with its index, which alone has the derivative. Of two arrays: `minimum`."""
    x = jnp.asarray(self)
    if dim is None:
        return jnp.min(x)
    if not isinstance(dim, int):
        return jnp.minimum(*floating(x, dim))
    return _extremum(x, dim, keepdim, largest=False)


def logsumexp(self: ArrayLike, dim: Axes, keepdim: bool = False) -> Array:
    """log(Σ exp(self)).

    An axis of -inf gives -inf, with the derivative NaN.

    >>> aten.logsumexp(jnp.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), 1)
    Array([4.169846 , 5.1328454], dtype=float32)
    """
    (x,) = floating(self)
    axes = axes_of(x, dim)
    x = _constant_if_empty(x, axes)
    largest = jnp.max(lax.stop_gradient(x.real), axis=axes, keepdims=True, initial=-jnp.inf)
    largest = jnp.where(jnp.isfinite(largest), largest, jnp.zeros_like(largest)).astype(x.dtype)
    total = jnp.log(jnp.sum(jnp.exp(x - largest), axis=axes, keepdims=True)) + largest
    return total if keepdim else jnp.squeeze(total, axes)


def linalg_vector_norm(
    self: ArrayLike, ord: float = 2, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """(Σ |self| ** ord) ** (1 / ord), or its limits for ord of 0 and ±∞. The derivative of the norm 0 is 0.

    >>> aten.linalg_vector_norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    x = jnp.asarray(self)
    x = x if dtype is None else x.astype(dtype)
    axes = axes_of(x, dim)
    if ord == 2:  # without absolute values, whose second derivative at 0 is no number
        return _root(jnp.sum(squared(x), axis=axes, keepdims=keepdim))
    size = _root(squared(x)) if is_complex(x) else jnp.where(x == 0, jnp.zeros_like(x), jnp.abs(x))
    return norm_of(size, float(ord), axes, keepdim)


def norm(self: ArrayLike, p: float | None = 2, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The vector norm, of all entries if no axis is given.

    >>> aten.norm(jnp.array([[3.0, 4.0]]), 2, 1)
    Array([5.], dtype=float32)
    """
    return linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)


def dist(self: ArrayLike, other: ArrayLike, p: float = 2) -> Array:
    """The norm of the difference."""
    x, y = floating(self, other)
    return linalg_vector_norm(x - y, p)


def all(self: ArrayLike, dim: Axes = None, keepdim: bool = False) -> Array:
    """True where no entry is 0."""
    x = jnp.asarray(self)
    return jnp.all(x, axis=axes_of(x, dim), keepdims=keepdim)


def any(self: ArrayLike, dim: Axes = None, keepdim: bool = False) -> Array:
    """True where an entry is not 0."""
    x = jnp.asarray(self)
    return jnp.any(x, axis=axes_of(x, dim), keepdims=keepdim)


def count_nonzero(self: ArrayLike, dim: Axes = None) -> Array:
    """The number of entries that are not 0."""
    x = jnp.asarray(self)
    return jnp.sum((x != 0).astype(jax.dtypes.canonicalize_dtype(np.int64)), axis=axes_of(x, dim))


def trace(self: ArrayLike) -> Array:
    """The sum of the diagonal."""
    x = jnp.asarray(self)
    if x.ndim != 2:
        raise ValueError(f"trace needs a matrix, got an array of shape {x.shape}")
    return jnp.trace(_summed_dtype(x, None))


def _max_of_two(self: ArrayLike, other: ArrayLike) -> Array:
    """The larger; NaN if one is. Of equal ones each has half of the derivative."""
    return jnp.maximum(*promoted(self, other))


def _min_of_two(self: ArrayLike, other: ArrayLike) -> Array:
    """The smaller; NaN if one is. Of equal ones each has half of the derivative."""
    return jnp.minimum(*promoted(self, other))


def _softmax(self: ArrayLike, dim: int, half_to_float: bool = False) -> Array:
    """exp(self) / Σ exp(self)."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    return jax.nn.softmax(x, axis=axis) if x.ndim else jnp.ones_like(x)


def _log_softmax(self: ArrayLike, dim: int, half_to_float: bool = False) -> Array:
    """self - log(Σ exp(self))."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    return jax.nn.log_softmax(x, axis=axis) if x.ndim else jnp.zeros_like(x)


def softmax(self: ArrayLike, dim: int, dtype: DTypeLike | None = None) -> Array:
    """exp(self) / Σ exp(self) along an axis, of self in another dtype if one is given.

    self (*), and the result, too.

    >>> aten.softmax(jnp.array([[0.0, 0.0]]), 1)
    Array([[0.5, 0.5]], dtype=float32)
    """
    return _softmax(jnp.asarray(self, dtype), dim)


def log_softmax(self: ArrayLike, dim: int, dtype: DTypeLike | None = None) -> Array:
    """self - log(Σ exp(self)) along an axis, of self in another dtype if one is given.

    self (*), and the result, too.

    >>> aten.log_softmax(jnp.array([[0.0, 0.0]]), 1)
    Array([[-0.6931472, -0.6931472]], dtype=float32)
    """
    return _log_softmax(jnp.asarray(self, dtype), dim)


def _var_of_all(self: ArrayLike, unbiased: bool = True) -> Array:
    """The variance of all entries; one is taken off their number if unbiased."""
    return var(self, None, unbiased)


def _std_of_all(self: ArrayLike, unbiased: bool = True) -> Array:
    """The standard deviation of all entries; one is taken off their number if unbiased."""
    return std(self, None, unbiased)


def _var_mean_of_all(self: ArrayLike, unbiased: bool = True) -> tuple[Array, Array]:
    """The variance of all entries, one taken off their number if unbiased, and their mean."""
    return var_mean(self, None, unbiased)


def _std_mean_of_all(self: ArrayLike, unbiased: bool = True) -> tuple[Array, Array]:
    """The standard deviation of all entries, one taken off their number if unbiased, and their mean."""
    return std_mean(self, None, unbiased)


OPERATORS = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "var.correction": _var_correction,
    "std.correction": _std_correction,
    "var.dim": var,
    "std.dim": std,
    "var": _var_of_all,
    "std": _std_of_all,
    "var_mean.correction": var_mean,
    "std_mean.correction": std_mean,
    "var_mean.dim": var_mean,
    "std_mean.dim": std_mean,
    "var_mean": _var_mean_of_all,
    "std_mean": _std_mean_of_all,
    "max.other": _max_of_two,
    "min.other": _min_of_two,
}
