"""Reading and writing at places that an index names, sorting, and counting, in NumPy: the values of JAX's primitives.

An index is a vector of places along some of the axes, and names a window:
there it begins, and the sizes are fixed. Windows that reach beyond the array are moved inside, filled, or left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax
from jax.extend import core

_MODES = (
    lax.GatherScatterMode.CLIP,
    lax.GatherScatterMode.FILL_OR_DROP,
    lax.GatherScatterMode.PROMISE_IN_BOUNDS,
)


def _windows(
    shape: Sequence[int],
    indices: np.ndarray,
    named: Sequence[int],
    batched: Sequence[int],
    batched_by: Sequence[int],
    sizes: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """The flat positions of all entries of the windows, and which windows lie inside the array.

    Args:
        shape: of the array.
        indices: a vector for each window.
        named: the axes of the array that its numbers are about.
        batched, batched_by: axes of the array, and those axes of `indices` along which they go.
        sizes: of a window, along all axes of the array.

    Returns:
        Positions of the shape (that of the windows, sizes), of windows that have been moved inside; and booleans.
    """
    starts, batch = indices.astype(np.int64), indices.shape[:-1]
    room = np.array([shape[axis] - sizes[axis] for axis in named], np.int64)
    inside = np.asarray(((starts >= 0) & (starts <= room)).all(-1))
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    positions = np.clip(starts, 0, room) @ strides[np.array(named, np.intp)]
    for axis, along in zip(batched, batched_by, strict=True):
        steps = np.arange(batch[along]) * strides[axis]
        positions = positions + steps.reshape([-1 if i == along else 1 for i in range(len(batch))])
    positions = positions.reshape(batch + (1,) * len(sizes))
    for axis, size in enumerate(sizes):
        steps = np.arange(size) * strides[axis]
        positions = positions + steps.reshape([-1 if i == axis else 1 for i in range(len(sizes))])
    return positions, inside


def gathered(
    x: np.ndarray,
    indices: np.ndarray,
    dimension_numbers: lax.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    mode: lax.GatherScatterMode,
    fill_value: Any,
    **_: Any,
) -> np.ndarray:
    """gather: the windows, each without the axes that are collapsed."""
    dims = dimension_numbers
    batched = dims.operand_batching_dims
    positions, inside = _windows(
        x.shape, indices, dims.start_index_map, batched, dims.start_indices_batching_dims, slice_sizes
    )
    y, first = x.reshape(-1)[positions], indices.ndim - 1
    y = y.squeeze(tuple(first + axis for axis in (*dims.collapsed_slice_dims, *batched)))
    y = np.moveaxis(y, range(first, y.ndim), dims.offset_dims)
    if mode == lax.GatherScatterMode.FILL_OR_DROP and not inside.all():
        kept = np.expand_dims(inside, tuple(dims.offset_dims))
        y = np.where(kept, y, np.asarray(fill_value).astype(x.dtype))
    return y


def addressed(
    x: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    dimension_numbers: lax.ScatterDimensionNumbers,
    mode: lax.GatherScatterMode | None,
    **_: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Where in the flattened array a scatter writes, and each update that it writes there, both flat and in order."""
    dims, batched = dimension_numbers, dimension_numbers.operand_batching_dims
    remaining = iter(updates.shape[axis] for axis in dims.update_window_dims)
    left_out = (*dims.inserted_window_dims, *batched)
    sizes = [1 if axis in left_out else next(remaining) for axis in range(x.ndim)]
    positions, inside = _windows(
        x.shape, indices, dims.scatter_dims_to_operand_dims, batched, dims.scatter_indices_batching_dims, sizes
    )
    first = indices.ndim - 1
    updates = np.moveaxis(updates, dims.update_window_dims, range(first, updates.ndim)).reshape(positions.shape)
    if mode != lax.GatherScatterMode.CLIP and not inside.all():
        positions, updates = positions[inside], updates[inside]
    return positions.reshape(-1), updates.reshape(-1)


def scattered(combine: np.ufunc | None) -> Callable[..., np.ndarray]:
    """scatter-add and the like: the array, with `combine(entry, update)` where there are updates, or the update."""

    def scattered(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, **params: Any) -> np.ndarray:
        positions, values = addressed(x, indices, updates, **params)
        y = x.flatten()
        if combine is None:
            y[positions] = values
        else:
            combine.at(y, positions, values)
        return y.reshape(x.shape)

    return scattered


def _slices(x: np.ndarray, starts: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A window of an array, moved inside."""
    at = [min(max(int(a), 0), n - size) for a, n, size in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + size) for a, size in zip(at, sizes, strict=True))


def read(x: np.ndarray, *starts: np.ndarray, slice_sizes: Sequence[int]) -> np.ndarray:
    """The value of dynamic_slice."""
    return x[_slices(x, starts, slice_sizes)]


def written(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    """The value of dynamic_update_slice."""
    y = x.copy()
    y[_slices(x, starts, update.shape)] = update
    return y


def sorted_by_one(*x: np.ndarray, dimension: int, is_stable: bool, num_keys: int) -> list[np.ndarray]:
    """The values of sort by one key, of which the other operands follow the first."""
    if len(x) == 1:
        return [np.sort(x[0], dimension)]
    order = np.argsort(x[0], dimension, kind="stable")
    return [np.take_along_axis(a, order, dimension) for a in x]


def counted(dtype: np.dtype, shape: Sequence[int], dimension: int, sharding: Any) -> np.ndarray:
    """The value of iota."""
    steps = np.arange(shape[dimension], dtype=dtype)
    return np.broadcast_to(steps.reshape([-1 if i == dimension else 1 for i in range(len(shape))]), tuple(shape))


def may_index(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """True if there is something to read, by indices that fit into an int64 and name an axis.

    Of several windows whose indices name none XLA adds only the first.
    """
    return eqn.params["mode"] in _MODES and x[0].size > 0 and x[1].dtype != np.uint64 and x[1].shape[-1] > 0


def may_write(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """True if what is written has the dtype of what is there."""
    return may_index(eqn, x) and x[0].dtype == x[2].dtype


def may_combine(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """True if it is combined as NumPy does."""
    return may_write(eqn, x) and (x[0].dtype in (np.float64, np.complex128) or x[0].dtype.kind in "iu")


def may_sort(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """True if a sort has one possible result only."""
    by_one = eqn.params["num_keys"] == 1 and (eqn.params["is_stable"] or len(x) == 1)
    return by_one and (x[0].dtype == np.float64 or x[0].dtype.kind in "biu")


def is_native(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """True of a dtype that NumPy itself has."""
    dtype = eqn.params["dtype"]
    return not x and (dtype == np.float64 or (dtype.kind in "iu" and dtype.isbuiltin == 1))
