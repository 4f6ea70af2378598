"""Running sums, products and extrema; sorting and selection."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._arrays import read_at
from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import exceeds
from jax_ref.aten._promotion import floating, is_complex

Array = jax.Array


def _accumulated(self: ArrayLike, dtype: Any) -> Array:
    x = jnp.asarray(self)
    if dtype is not None:
        return x.astype(dtype)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jax.dtypes.canonicalize_dtype(np.int64))


def cumsum(self: ArrayLike, dim: int, *, dtype: Any = None) -> Array:
    """The running sum along an axis.

    >>> aten.cumsum(jnp.array([1.0, 2.0, 3.0]), 0)
    Array([1., 3., 6.], dtype=float32)
    """
    x = _accumulated(self, dtype)
    axis = axis_of(x, dim)
    return jnp.cumsum(x, axis=axis) if x.ndim else x


def cumprod(self: ArrayLike, dim: int, *, dtype: Any = None) -> Array:
    """The running product along an axis; its derivative never divides by an entry."""
    x = _accumulated(self, dtype)
    axis = axis_of(x, dim)
    return lax.associative_scan(jnp.multiply, x, axis=axis) if x.size and x.ndim else x


def logcumsumexp(self: ArrayLike, dim: int) -> Array:
    """The logarithm of the running sum of exponentials.

    Of complex numbers the imaginary part is not reduced to (-π, π]: it is that of the sum taken from left to right.
    """
    (x,) = floating(self)
    axis = axis_of(x, dim)
    if not x.ndim or not x.size:
        return x
    if not is_complex(x):
        return lax.associative_scan(jnp.logaddexp, x, axis=axis)
    rows = jnp.moveaxis(x, axis, 0)

    def step(sum_so_far: Array, row: Array) -> tuple[Array, Array]:
        following = _logaddexp(row, sum_so_far)
        return following, following

    _, others = lax.scan(step, rows[0], rows[1:])
    return jnp.moveaxis(jnp.concatenate([rows[:1], others]), 0, axis)


def _logaddexp(x: Array, y: Array) -> Array:
    first = x.real >= y.real
    larger, smaller = jnp.where(first, x, y), jnp.where(first, y, x)
    nothing = jnp.isneginf(larger.real)
    safe = jnp.where(nothing, jnp.zeros_like(larger), larger)
    return jnp.where(nothing, larger, safe + jnp.log1p(jnp.exp(smaller - safe)))


def _running(self: ArrayLike, dim: int, is_better: Any) -> tuple[Array, Array]:
    """The running extremum with its index, that of the last of equal ones; NaN is the best."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    if not x.ndim or not x.size:
        return x, jnp.zeros(x.shape, jax.dtypes.canonicalize_dtype(np.int64))

    def best(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        second = is_better(b[0], a[0]) | (b[0] == a[0]) | jnp.isnan(b[0])
        second &= ~(jnp.isnan(a[0]) & ~jnp.isnan(b[0]))
        return jnp.where(second, b[0], a[0]), jnp.where(second, b[1], a[1])

    index = lax.broadcasted_iota(jax.dtypes.canonicalize_dtype(np.int64), x.shape, axis)
    values, places = lax.associative_scan(best, (lax.stop_gradient(x), index), axis=axis)
    return read_at(x, places, axis, values), places


def cummax(self: ArrayLike, dim: int) -> tuple[Array, Array]:
    """The running maximum and its index, that of the last of equal ones, which alone has the derivative."""
    return _running(self, dim, jnp.greater)


def cummin(self: ArrayLike, dim: int) -> tuple[Array, Array]:
    """The running minimum and its index, that of the last of equal ones, which alone has the derivative."""
    return _running(self, dim, jnp.less)


def sort(
    self: ArrayLike, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Array, Array]:
    """The entries of an axis in order, and their indices; equal ones keep their order.

    >>> aten.sort(jnp.array([2.0, 1.0]), 0)[1]
    Array([1, 0], dtype=int32)
    """
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    if x.ndim == 0:
        return x, jnp.zeros((), jax.dtypes.canonicalize_dtype(np.int64))
    order = jnp.argsort(lax.stop_gradient(x), axis=axis, stable=True, descending=descending)
    values = jnp.sort(lax.stop_gradient(x), axis=axis, stable=True, descending=descending)
    return read_at(x, order, axis, values), order


def argsort(self: ArrayLike, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Array:
    """The indices that sort an axis."""
    return sort(self, dim, descending)[1]


def msort(self: ArrayLike) -> Array:
    """The entries of the first axis in order."""
    return sort(self, 0)[0]


def topk(self: ArrayLike, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The k largest entries of an axis, or smallest, in order, and their indices.

    >>> aten.topk(jnp.array([1.0, 3.0, 2.0]), 2)[1]
    Array([1, 2], dtype=int32)
    """
    x = jnp.asarray(self)
    values, index = sort(x, dim, descending=largest)
    if x.ndim == 0:
        return values, index
    axis = axis_of(x, dim)
    if exceeds(0, k) or exceeds(k, x.shape[axis]):
        raise ValueError(f"topk: k is {k}, and axis {axis} of an array of shape {x.shape} has {x.shape[axis]} entries")
    return lax.slice_in_dim(values, 0, k, axis=axis), lax.slice_in_dim(index, 0, k, axis=axis)


def kthvalue(self: ArrayLike, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The k-th smallest entry of an axis, from 1 on, and its index."""
    x = jnp.asarray(self)
    if x.ndim == 0:
        return sort(x, dim)
    if exceeds(1, k) or exceeds(k, x.shape[axis_of(x, dim)]):
        raise ValueError(f"kthvalue: k is {k}; give one of 1 to {x.shape[axis_of(x, dim)]}, the entries of axis {dim}")
    found, index = (lax.slice_in_dim(each, k - 1, k, axis=axis_of(x, dim)) for each in sort(x, dim))
    return (found, index) if keepdim else (jnp.squeeze(found, dim), jnp.squeeze(index, dim))


def median(self: ArrayLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median, the lower of two; NaN if an entry is. Along an axis with its index.

    Of all entries, equal ones share the derivative; along an axis the one at the index has it.
    """
    x = jnp.asarray(self)
    return _median(x, dim, keepdim, jnp.zeros(x.shape, bool))


def nanmedian(self: ArrayLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of what is no NaN, the lower of two. Along an axis with its index."""
    x = jnp.asarray(self)
    return _median(x, dim, keepdim, jnp.isnan(x))


def _median(x: Array, dim: int | None, keepdim: bool, ignored: Array) -> Any:
    if dim is None:
        if not x.size:
            return jnp.full((), jnp.nan, x.dtype)
        return _shared(x, _median(x.reshape(-1), 0, False, ignored.reshape(-1))[0])
    if x.ndim == 0:
        return x, jnp.zeros((), jax.dtypes.canonicalize_dtype(np.int64))
    values, order = sort(x, dim)
    count = jnp.sum(~ignored, axis=dim, keepdims=True)
    of_nan = jnp.any(jnp.isnan(x) & ~ignored, axis=dim, keepdims=True)
    place = jnp.where(of_nan, 0, jnp.maximum(count - 1, 0) // 2)
    found, index = (jnp.take_along_axis(each, place, axis=dim) for each in (values, order))
    if not jnp.issubdtype(x.dtype, jnp.integer):
        first_nan = jnp.argmax(jnp.isnan(x), axis=dim, keepdims=True)
        index = jnp.where(of_nan, first_nan, index)
        found = read_at(x, index, dim, jnp.where(of_nan, jnp.nan, lax.stop_gradient(found)))
    return (found, index) if keepdim else (jnp.squeeze(found, dim), jnp.squeeze(index, dim))


def _shared(x: Array, value: Array) -> Array:
    """A value with the derivative of the mean of the entries that are equal to it."""
    equal = (x == lax.stop_gradient(value)) | (jnp.isnan(x) & jnp.isnan(value))
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return value
    share = jnp.where(equal, x - lax.stop_gradient(x), jnp.zeros_like(x))
    share = jnp.where(jnp.isnan(share), jnp.zeros_like(share), share)
    return lax.stop_gradient(value) + jnp.sum(share) / jnp.sum(equal).astype(x.dtype)


def mode(self: ArrayLike, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The most frequent entry of an axis, the smallest of several, and the index of its last occurrence."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    if x.ndim == 0:
        return x, jnp.zeros((), jax.dtypes.canonicalize_dtype(np.int64))
    rows = jnp.moveaxis(lax.stop_gradient(x), axis, -1)
    counts = jnp.sum(rows[..., :, None] == rows[..., None, :], axis=-1)
    candidates = jnp.where(counts == jnp.max(counts, axis=-1, keepdims=True), rows, jnp.inf)
    best = jnp.min(candidates, axis=-1, keepdims=True)
    places = jnp.arange(rows.shape[-1])
    index = jnp.max(jnp.where(rows == best, places, -1), axis=-1, keepdims=True)
    index = jnp.moveaxis(index, -1, axis)
    found = jnp.take_along_axis(x, index, axis=axis)
    return (found, index) if keepdim else (jnp.squeeze(found, axis), jnp.squeeze(index, axis))


def searchsorted(
    sorted_sequence: ArrayLike,
    self: ArrayLike,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: ArrayLike | None = None,
) -> Array:
    """The places at which the values would be inserted to keep the last axis in order."""
    rows, values = jnp.asarray(sorted_sequence), jnp.asarray(self)
    if sorter is not None:
        rows = jnp.take_along_axis(rows, jnp.asarray(sorter), axis=-1)
    dtype = np.int32 if out_int32 else jax.dtypes.canonicalize_dtype(np.int64)
    after = right or side == "right"
    if rows.ndim == 1:
        found = jnp.searchsorted(rows, values, side="right" if after else "left")
        return found.astype(dtype)
    before = rows[..., None, :] <= values[..., :, None] if after else rows[..., None, :] < values[..., :, None]
    return jnp.sum(before, axis=-1).astype(dtype)


def bucketize(self: ArrayLike, boundaries: ArrayLike, *, out_int32: bool = False, right: bool = False) -> Array:
    """The place of each value among the boundaries."""
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)
