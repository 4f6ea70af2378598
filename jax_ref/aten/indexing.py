"""Reading and writing at indices."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import exceeds, integers, one_of
from jax_ref.aten._promotion import of_one_dtype

Array = jax.Array


def _places(x: Array, indices: Sequence[ArrayLike | None]) -> tuple:
    """NumPy's index for PyTorch's list of them, in which None is a whole axis and a mask may be of several axes."""
    found: list = []
    for index in indices:
        if index is None:
            found.append(slice(None))
        elif jnp.result_type(index) in (jnp.bool_, jnp.uint8):  # as PyTorch takes them: masks, both
            found += list(np.nonzero(np.asarray(index)))
        else:
            found.append(integers("index", "indices", index))
    if len(found) > x.ndim:
        raise IndexError(f"index: {len(found)} indices for an array of shape {x.shape}; give at most one an axis")
    return tuple(found)


def index(self: ArrayLike, indices: Sequence[ArrayLike | None]) -> Array:
    """self[indices]."""
    x = jnp.asarray(self)
    return x[_places(x, indices)]


def index_put(
    self: ArrayLike, indices: Sequence[ArrayLike | None], values: ArrayLike, accumulate: bool = False
) -> Array:
    """self with the values at these indices, or with the values added there."""
    x = jnp.asarray(self)
    y = jnp.asarray(values, x.dtype) if jnp.ndim(values) == 0 else of_one_dtype("index_put", x, values)[1]
    mask = jnp.asarray(indices[0]) if len(indices) == 1 and indices[0] is not None else None
    if mask is not None and mask.dtype == jnp.bool_ and y.size == 1 and not accumulate:  # of a mask that is traced, too
        return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), y.reshape(()), x)
    at = x.at[_places(x, indices)]
    if not accumulate:
        return at.set(y)
    return at.max(y) if x.dtype == jnp.bool_ else at.add(y)


def _unsafe_masked_index(self: ArrayLike, mask: ArrayLike, indices: Sequence[ArrayLike | None], fill: float) -> Array:
    """self[indices] where the mask is true, and a number elsewhere, where an index may be outside."""
    x = jnp.asarray(self)
    limits = [x.shape[i] for i in range(len(indices))]
    inside = [
        None if each is None else jnp.clip(jnp.asarray(each), 0, max(n - 1, 0))
        for each, n in zip(indices, limits, strict=True)
    ]
    found = index(x, inside)
    chosen = jnp.broadcast_to(jnp.asarray(mask), found.shape)
    return jnp.where(chosen, found, jnp.asarray(fill, x.dtype))


def _unsafe_masked_index_put_accumulate(
    self: ArrayLike, mask: ArrayLike, indices: Sequence[ArrayLike | None], values: ArrayLike
) -> Array:
    """self with the values added at the indices where the mask is true."""
    x, y = jnp.asarray(self), jnp.asarray(values)
    inside = [
        None if each is None else jnp.clip(jnp.asarray(each), 0, max(x.shape[i] - 1, 0))
        for i, each in enumerate(indices)
    ]
    chosen = jnp.broadcast_to(jnp.asarray(mask), y.shape)
    return index_put(x, inside, jnp.where(chosen, y, jnp.zeros_like(y)), True)


def _rows(x: Array, dim: int, positions: ArrayLike) -> tuple:
    """The index of entries of an axis; negative ones count from its end."""
    return (*(slice(None),) * axis_of(x, dim), integers("an index along an axis", "index", positions).reshape(-1))


def index_select(self: ArrayLike, dim: int, index: ArrayLike) -> Array:
    """The entries of an axis at these indices.

    index (n,); an index out of range is clamped, a negative one counts from the end.

    >>> aten.index_select(jnp.array([1.0, 2.0, 3.0]), 0, jnp.array([2, 0]))
    Array([3., 1.], dtype=float32)
    """
    x = jnp.asarray(self)
    if x.ndim == 0:
        return x
    return x[_rows(x, dim, index)]


def index_add(self: ArrayLike, dim: int, index: ArrayLike, source: ArrayLike, *, alpha: float = 1) -> Array:
    """self with alpha source added to the entries of an axis at these indices."""
    x = jnp.asarray(self)
    y = jnp.asarray(source, x.dtype) * jnp.asarray(alpha, x.dtype)
    if x.ndim == 0:
        return x + jnp.sum(y)
    return x.at[_rows(x, dim, index)].add(y.reshape(y.shape or (1,)))


def index_copy(self: ArrayLike, dim: int, index: ArrayLike, source: ArrayLike) -> Array:
    """self with source as the entries of an axis at these indices."""
    x = jnp.asarray(self)
    y = jnp.asarray(source, x.dtype)
    if x.ndim == 0:
        return y.reshape(())
    return x.at[_rows(x, dim, index)].set(y.reshape(y.shape or (1,)))


def index_fill(self: ArrayLike, dim: int, index: ArrayLike, value: ArrayLike) -> Array:
    """self with a number as the entries of an axis at these indices."""
    x = jnp.asarray(self)
    if x.ndim == 0:
        return jnp.asarray(value, x.dtype).reshape(())
    return x.at[_rows(x, dim, index)].set(jnp.asarray(value, x.dtype))


def _along(x: Array, dim: int, index: Array) -> tuple[Array, ...]:
    """The index of the entries at (i₀, ..., index[i], ..., iₙ)."""
    grid = [lax.broadcasted_iota(index.dtype, index.shape, i) for i in range(index.ndim)]
    grid[axis_of(x, dim)] = index
    return tuple(grid)


def gather(self: ArrayLike, dim: int, index: ArrayLike, *, sparse_grad: bool = False) -> Array:
    """The entries of an axis at indices that differ from place to place.

    self and index have as many axes, and the result has the shape of index. An index out of range is
    clamped.

    >>> aten.gather(jnp.array([[1.0, 2.0], [3.0, 4.0]]), 1, jnp.array([[1], [0]]))
    Array([[2.],
           [3.]], dtype=float32)
    """
    x, places = jnp.asarray(self), integers("gather", "index", index)
    axis = axis_of(x, dim)
    if not places.size:  # then it may have other axes than self
        return jnp.zeros(places.shape, x.dtype)
    if x.ndim == 0 or places.ndim == 0:
        return jnp.broadcast_to(x.reshape(-1)[places.reshape(-1)].reshape(places.shape), places.shape)
    if places.ndim != x.ndim:
        raise ValueError(f"gather: index must have as many axes as self, got the shapes {places.shape} and {x.shape}")
    return x[_along(x, axis, places)]


def _scattered(self: ArrayLike, dim: int, index: ArrayLike, src: ArrayLike) -> tuple:
    """The array, PyTorch's places as an index of it, and the part of src that is used; axes of at least 1."""
    x, places = jnp.asarray(self), integers("scatter", "index", index)
    flat = x.reshape(x.shape or (1,))
    places = places.reshape(places.shape or (1,))
    y = jnp.asarray(src, x.dtype)
    fits = y.ndim in (0, flat.ndim) and not any(map(exceeds, places.shape, y.shape))
    if places.size and not (places.ndim == flat.ndim and fits):
        raise ValueError(
            f"scatter: index and src must have the axes of self, and index no more entries along one than src; got "
            f"self {x.shape}, index {places.shape}, src {y.shape}"
        )
    y = jnp.broadcast_to(y, places.shape) if y.ndim == 0 else y[tuple(slice(n) for n in places.shape)]
    return flat, _along(flat, dim, places), y, x.shape


def scatter(self: ArrayLike, dim: int, index: ArrayLike, src: ArrayLike = 0, *, reduce: str | None = None) -> Array:
    """self with src at these places of an axis; reduce="add" or "multiply": put together with what is there.

    index has as many axes as self and src, which is at least as large. An index out of range is left out; of equal
    ones any may win.

    >>> aten.scatter(jnp.zeros(3), 0, jnp.array([2]), jnp.array([5.0]))
    Array([0., 0., 5.], dtype=float32)
    """
    one_of("scatter", "reduce", reduce, (None, "add", "multiply"))
    x, at, y, shape = _scattered(self, dim, index, src)
    if reduce == "add":
        return x.at[at].add(y).reshape(shape)
    if reduce == "multiply":
        return x.at[at].multiply(y).reshape(shape)
    return x.at[at].set(y).reshape(shape)


def _scatter_value(
    self: ArrayLike, dim: int, index: ArrayLike, value: ArrayLike, *, reduce: str | None = None
) -> Array:
    """self with a number at these places of an axis."""
    return scatter(self, dim, index, value, reduce=reduce)


def scatter_add(self: ArrayLike, dim: int, index: ArrayLike, src: ArrayLike) -> Array:
    """self with src added at these places of an axis.

    An index out of range is left out.

    >>> aten.scatter_add(jnp.zeros(2), 0, jnp.array([1, 1]), jnp.array([5.0, 6.0]))
    Array([ 0., 11.], dtype=float32)
    """
    x, at, y, shape = _scattered(self, dim, index, src)
    return x.at[at].add(y).reshape(shape)


def _reduced(x: Array, at: tuple, y: Array, reduce: str, include_self: bool) -> Array:
    """Return x with y reduced into it at these places: "sum", "mean", "prod", "amax", "amin"."""
    one_of("a reduction into places", "reduce", reduce, ("sum", "mean", "prod", "amax", "amin"))
    touched = jnp.zeros(x.shape, bool).at[at].set(True)
    counts = jnp.zeros(x.shape, x.dtype).at[at].add(jnp.ones_like(y))
    lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).min
    highest = jnp.inf if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).max
    start = {"sum": 0, "mean": 0, "prod": 1, "amax": lowest, "amin": highest}[reduce]
    begun = x if include_self else jnp.where(touched, jnp.asarray(start, x.dtype), x)
    if reduce == "prod":
        return _products(begun, at, y)
    if reduce in ("amax", "amin"):
        return _extrema(begun, at, y, reduce, touched, include_self)
    total = begun.at[at].add(y)
    if reduce == "sum":
        return total
    divisor = jnp.maximum(counts + jnp.asarray(include_self, x.dtype), jnp.ones_like(counts))
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return total / jnp.where(touched, divisor, jnp.ones_like(divisor))
    return jnp.floor_divide(total, jnp.where(touched, divisor, jnp.ones_like(divisor)))


def _products(x: Array, at: tuple, y: Array) -> Array:
    """x with y multiplied in, one after another, so that no derivative divides by an entry."""
    places = tuple(each.reshape(-1) for each in jnp.broadcast_arrays(*at))
    values = y.reshape(-1, *y.shape[len(jnp.broadcast_shapes(*(each.shape for each in at))) :])

    def step(total: Array, i: Array) -> tuple[Array, None]:
        return total.at[tuple(each[i] for each in places)].multiply(values[i]), None

    return lax.scan(step, x, jnp.arange(values.shape[0]))[0] if values.shape[0] else x


def _extrema(x: Array, at: tuple, y: Array, reduce: str, touched: Array, include_self: bool) -> Array:
    """The largest or smallest of x and of y at each place; equal ones share the derivative."""
    held, given = lax.stop_gradient(x), lax.stop_gradient(y)
    best = held.at[at].max(given) if reduce == "amax" else held.at[at].min(given)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return best
    mine = (held == best) & (include_self | ~touched)
    theirs = given == best[at]
    count = mine.astype(x.dtype).at[at].add(theirs.astype(x.dtype))
    share = jnp.where(mine, x - held, jnp.zeros_like(x))
    share = share.at[at].add(jnp.where(theirs, y - given, jnp.zeros_like(y)))
    return best + share / jnp.maximum(count, jnp.ones_like(count))


def scatter_reduce(
    self: ArrayLike, dim: int, index: ArrayLike, src: ArrayLike, reduce: str, *, include_self: bool = True
) -> Array:
    """self with src put together at these places: "sum", "prod", "mean", "amax" or "amin"."""
    x, at, y, shape = _scattered(self, dim, index, src)
    return _reduced(x, at, y, reduce, include_self).reshape(shape)


def index_reduce(
    self: ArrayLike, dim: int, index: ArrayLike, source: ArrayLike, reduce: str, *, include_self: bool = True
) -> Array:
    """self with source put together with entries of an axis: "prod", "mean", "amax" or "amin"."""
    x = jnp.asarray(self)
    flat, y = x.reshape(x.shape or (1,)), jnp.asarray(source, x.dtype)
    y = y.reshape(y.shape or (1,))
    axis = axis_of(flat, dim)
    places = jnp.asarray(index).reshape([-1 if i == axis else 1 for i in range(flat.ndim)])
    at = _along(flat, axis, jnp.broadcast_to(places, y.shape))
    return _reduced(flat, at, y, reduce, include_self).reshape(x.shape)


def take(self: ArrayLike, index: ArrayLike) -> Array:
    """The entries at indices of all, in row-major order."""
    return jnp.asarray(self).reshape(-1)[integers("take", "index", index)]


def put(self: ArrayLike, index: ArrayLike, source: ArrayLike, accumulate: bool = False) -> Array:
    """self with source at indices of all entries in row-major order, or with source added there."""
    x = jnp.asarray(self)
    at = x.reshape(-1).at[jnp.asarray(index).reshape(-1)]
    y = jnp.asarray(source, x.dtype).reshape(-1)
    return (at.add(y) if accumulate else at.set(y)).reshape(x.shape)


def masked_fill(self: ArrayLike, mask: ArrayLike, value: ArrayLike) -> Array:
    """self with a number where the mask is true.

    >>> aten.masked_fill(jnp.array([1.0, 2.0]), jnp.array([True, False]), 0.0)
    Array([0., 2.], dtype=float32)
    """
    x, chosen = jnp.asarray(self), jnp.asarray(mask)
    shape = jnp.broadcast_shapes(x.shape, chosen.shape)
    fill = jnp.broadcast_to(jnp.asarray(value).astype(x.dtype), shape)
    return jnp.where(jnp.broadcast_to(chosen, shape), fill, jnp.broadcast_to(x, shape))


def masked_select(self: ArrayLike, mask: ArrayLike) -> Array:
    """The entries where the mask is true, in row-major order. Not under jit: the result's shape is the mask's."""
    x, chosen = jnp.asarray(self), np.asarray(mask)
    shape = np.broadcast_shapes(x.shape, chosen.shape)
    return jnp.broadcast_to(x, shape).reshape(-1)[np.flatnonzero(np.broadcast_to(chosen, shape))]


def masked_scatter(self: ArrayLike, mask: ArrayLike, source: ArrayLike) -> Array:
    """self with the first entries of source where the mask is true, in row-major order."""
    x, chosen = jnp.broadcast_arrays(jnp.asarray(self), jnp.asarray(mask))
    y = jnp.asarray(source, x.dtype).reshape(-1)
    if not y.size:
        return x
    place = jnp.clip(jnp.cumsum(chosen.reshape(-1).astype(int)) - 1, 0, y.size - 1).reshape(x.shape)
    return jnp.where(chosen, y[place], x)


def nonzero(self: ArrayLike) -> Array:
    """The indices of the entries that are not 0, one a row. Not under jit."""
    return (
        jnp.stack(jnp.nonzero(jnp.asarray(self)), axis=-1)
        if jnp.ndim(self)
        else jnp.zeros((int(bool(jnp.asarray(self) != 0)), 0), int)
    )


def embedding(
    weight: ArrayLike,
    indices: ArrayLike,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """The rows of weight at the indices. The row padding_idx has no derivative.

    weight (n, d), indices (*); the result is (*, d). An index out of range is clamped.

    >>> aten.embedding(jnp.array([[1.0], [2.0]]), jnp.array([1, 0]))
    Array([[2.],
           [1.]], dtype=float32)
    """
    w, rows = jnp.asarray(weight), integers("embedding", "indices", indices)
    if padding_idx >= 0:
        w = w.at[padding_idx].set(lax.stop_gradient(w[padding_idx]))
    found = w[rows]
    if not scale_grad_by_freq:
        return found
    counts = jnp.zeros(w.shape[0], w.dtype).at[rows.reshape(-1)].add(1)[rows]
    slope = (found - lax.stop_gradient(found)) / jnp.expand_dims(counts, -1)
    return lax.stop_gradient(found) + slope


def _index_put_impl(
    self: ArrayLike,
    indices: Sequence[ArrayLike | None],
    values: ArrayLike,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Array:
    """index_put."""
    return index_put(self, indices, values, accumulate)


OPERATORS = {
    "_index_put_impl": _index_put_impl,
    "_unsafe_index": index,
    "_unsafe_index_put": index_put,
    "_unsafe_masked_index": _unsafe_masked_index,
    "_unsafe_masked_index_put_accumulate": _unsafe_masked_index_put_accumulate,
    "scatter.value": _scatter_value,
    "scatter.value_reduce": _scatter_value,
}
