"""Shapes: views and their copies, which are the same in JAX, what joins and cuts arrays, and scatters into a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._axes import axes_of, axis_of
from jax_ref.aten._checks import exceeds, expanded, positive
from jax_ref.aten._promotion import common_dtype

Array = jax.Array


def view(self: ArrayLike, size: Sequence[int]) -> Array:
    """The same entries in row-major order with another shape, of which one size may be -1."""
    return jnp.reshape(jnp.asarray(self), tuple(size))


def reshape(self: ArrayLike, shape: Sequence[int]) -> Array:
    """The same entries in row-major order with another shape, of which one size may be -1."""
    return jnp.reshape(jnp.asarray(self), tuple(shape))


def flatten(self: ArrayLike, start_dim: int = 0, end_dim: int = -1) -> Array:
    """The axes from start_dim to end_dim as one."""
    x = jnp.asarray(self)
    first, last = axis_of(x, start_dim), axis_of(x, end_dim)
    if x.ndim == 0:
        return x.reshape(1)
    return x.reshape((*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def unflatten(self: ArrayLike, dim: int, sizes: Sequence[int]) -> Array:
    """An axis as several."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    left = -x.shape[axis] // math.prod(sizes) if -1 in sizes else 1
    whole = tuple(left if size == -1 else size for size in sizes)
    return x.reshape((*x.shape[:axis], *whole, *x.shape[axis + 1 :]))


def permute(self: ArrayLike, dims: Sequence[int]) -> Array:
    """The axes in another order."""
    x = jnp.asarray(self)
    return jnp.transpose(x, tuple(axis_of(x, axis) for axis in dims))


def transpose(self: ArrayLike, dim0: int, dim1: int) -> Array:
    """Two axes swapped."""
    x = jnp.asarray(self)
    first, second = axis_of(x, dim0), axis_of(x, dim1)
    return jnp.swapaxes(x, first, second) if x.ndim else x


def t(self: ArrayLike) -> Array:
    """A matrix transposed."""
    return jnp.transpose(jnp.asarray(self))


def movedim(self: ArrayLike, source: Any, destination: Any) -> Array:
    """Axes at other places."""
    x = jnp.asarray(self)
    places = ([axis_of(x, a) for a in ([axes] if isinstance(axes, int) else axes)] for axes in (source, destination))
    return jnp.moveaxis(x, *places)


def expand(self: ArrayLike, size: Sequence[int], *, implicit: bool = False) -> Array:
    """Axes of size 1 repeated; a size of -1 stays."""
    x = jnp.asarray(self)
    lead = len(size) - x.ndim
    shape = tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(size))
    return expanded("expand", "self", x, shape)


def squeeze(self: ArrayLike, dim: int | Sequence[int] | None = None) -> Array:
    """The axes of size 1 left out, or those of these axes that have it."""
    x = jnp.asarray(self)
    if dim is None:
        return jnp.squeeze(x)
    chosen = [axis_of(x, axis) for axis in ([dim] if isinstance(dim, int) else dim)]
    return jnp.squeeze(x, tuple(axis for axis in chosen if x.ndim and x.shape[axis] == 1))


def unsqueeze(self: ArrayLike, dim: int) -> Array:
    """A new axis of size 1."""
    x = jnp.asarray(self)
    return jnp.expand_dims(x, axis_of(x, dim, more=1))


def select(self: ArrayLike, dim: int, index: int) -> Array:
    """One entry of an axis."""
    x = jnp.asarray(self)
    return lax.index_in_dim(x, index, axis=axis_of(x, dim), keepdims=False)


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    first = 0 if start is None else start + size if start < 0 else start
    last = size if end is None else end + size if end < 0 else end
    first = min(max(first, 0), size)
    return first, min(max(last, first), size)


def _sliced(x: Array, dim: int, start: int | None, end: int | None, step: int) -> tuple[slice, ...]:
    axis = axis_of(x, dim)
    first, last = _bounds(x.shape[axis], start, end)
    return (*(slice(None),) * axis, slice(first, last, step))


def _slice(self: ArrayLike, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """A range of an axis."""
    if step < 1:
        raise ValueError(f"slice needs step > 0, got {step}")
    x = jnp.asarray(self)
    return x[_sliced(x, dim, start, end, step)]


def narrow(self: ArrayLike, dim: int, start: int, length: int) -> Array:
    """So many entries of an axis, from start on."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    first = start + x.shape[axis] if start < 0 else start
    if exceeds(0, first) or exceeds(0, length) or exceeds(first + length, x.shape[axis]):
        raise ValueError(f"narrow: {length} entries from {start} on are not in axis {axis} of {x.shape}")
    return lax.slice_in_dim(x, first, first + length, axis=axis)


def split(self: ArrayLike, split_size: int | Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    """Parts of an axis of this size, or of these sizes."""
    x = jnp.asarray(self)
    if not isinstance(split_size, int):
        return split_with_sizes(x, split_size, dim)
    n = x.shape[axis_of(x, dim)]
    if split_size == 0:
        return (x,)
    return split_with_sizes(x, [min(split_size, n - i) for i in range(0, max(n, 1), split_size)], dim)


def split_with_sizes(self: ArrayLike, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    """Parts of an axis of these sizes."""
    x = jnp.asarray(self)
    axis, starts = axis_of(x, dim), np.cumsum([0, *split_sizes])
    return tuple(
        lax.slice_in_dim(x, int(start), int(start) + size, axis=axis)
        for start, size in zip(starts, split_sizes, strict=False)
    )


def chunk(self: ArrayLike, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """At most so many parts of an axis, all but the last of equal size."""
    x = jnp.asarray(self)
    positive("chunk", chunks=chunks)
    return split(x, max(-(-x.shape[axis_of(x, dim)] // chunks), 1), dim)


def unbind(self: ArrayLike, dim: int = 0) -> tuple[Array, ...]:
    """The entries of an axis."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    return tuple(lax.index_in_dim(x, i, axis=axis, keepdims=False) for i in range(x.shape[axis]))


def diagonal(self: ArrayLike, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The diagonal of two axes, as the last axis."""
    x = jnp.asarray(self)
    return jnp.diagonal(x, offset, axis_of(x, dim1), axis_of(x, dim2))


def diag_embed(self: ArrayLike, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Matrices, in two new axes, with the last axis on their diagonals."""
    x = jnp.asarray(self)
    n = x.shape[-1] + abs(offset)
    rows = jnp.arange(x.shape[-1]) + max(-offset, 0)
    matrix = jnp.zeros((*x.shape[:-1], n, n), x.dtype).at[..., rows, rows + offset].set(x)
    return jnp.moveaxis(matrix, (-2, -1), axes_of(matrix, (dim1, dim2)))


def diag(self: ArrayLike, diagonal: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix with this diagonal."""
    return jnp.diag(jnp.asarray(self), diagonal)


def tril(self: ArrayLike, diagonal: int = 0) -> Array:
    """The entries on and below a diagonal, 0 elsewhere."""
    return jnp.tril(jnp.asarray(self), diagonal)


def triu(self: ArrayLike, diagonal: int = 0) -> Array:
    """The entries on and above a diagonal, 0 elsewhere."""
    return jnp.triu(jnp.asarray(self), diagonal)


def unfold(self: ArrayLike, dimension: int, size: int, step: int) -> Array:
    """Windows of an axis, of this size and so far apart, along a new last axis."""
    x = jnp.asarray(self)
    axis = axis_of(x, dimension)
    if x.ndim == 0:
        return jnp.broadcast_to(x, (size,))
    count = (x.shape[axis] - size) // step + 1
    places = jnp.arange(count)[:, None] * step + jnp.arange(size)[None, :]
    windows = jnp.take(x, places.reshape(-1), axis=axis)
    windows = windows.reshape((*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
    return jnp.moveaxis(windows, axis + 1, -1)


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> np.ndarray:
    """The offsets in memory of the entries of a strided view."""
    total = np.full(tuple(size), offset)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        total = total + (np.arange(n) * step).reshape([-1 if i == axis else 1 for i in range(len(size))])
    return total


def as_strided(self: ArrayLike, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Array:
    """The entries at these strides, of an array that is contiguous in memory."""
    x = jnp.asarray(self)
    return x.reshape(-1)[_places(size, stride, storage_offset or 0)]


def as_strided_scatter(
    self: ArrayLike, src: ArrayLike, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    """self, contiguous in memory, with src at these strides."""
    x = jnp.asarray(self)
    places = jnp.asarray(_places(size, stride, storage_offset or 0)).reshape(-1)
    return x.reshape(-1).at[places].set(jnp.asarray(src, x.dtype).reshape(-1)).reshape(x.shape)


def flip(self: ArrayLike, dims: Sequence[int]) -> Array:
    """Axes in reverse."""
    x = jnp.asarray(self)
    return lax.rev(x, axes_of(x, dims)) if len(dims) else x


def roll(self: ArrayLike, shifts: Sequence[int] | int, dims: Sequence[int] | int = ()) -> Array:
    """Entries moved along axes, around the end; of all entries in row-major order if no axis is given."""
    x = jnp.asarray(self)
    places = shifts if isinstance(shifts, int) else tuple(shifts)
    if not isinstance(dims, int) and len(dims) == 0:
        return jnp.roll(x, places)
    axes = tuple(axis_of(x, axis) for axis in ((dims,) if isinstance(dims, int) else dims))
    return jnp.roll(x, places, axes) if x.ndim else x


def rot90(self: ArrayLike, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    """k quarter turns, from the first of two axes to the second."""
    first, second = dims
    x = jnp.asarray(self)
    return jnp.rot90(x, k, (axis_of(x, first), axis_of(x, second)))


def repeat(self: ArrayLike, repeats: Sequence[int]) -> Array:
    """Copies beside each other along each axis."""
    return jnp.tile(jnp.asarray(self), tuple(repeats))


def cat(tensors: Sequence[ArrayLike], dim: int = 0) -> Array:
    """Arrays joined along an axis; those of shape (0,) are left out."""
    if not len(tensors):
        raise ValueError("cat: there are no arrays")
    dtype = common_dtype(*tensors)
    arrays = [jnp.asarray(x, dtype) for x in tensors]
    kept = [x for x in arrays if x.shape != (0,)]
    return jnp.concatenate(kept, axis=axis_of(kept[0], dim)) if kept else arrays[0]


def stack(tensors: Sequence[ArrayLike], dim: int = 0) -> Array:
    """Arrays along a new axis."""
    dtype = common_dtype(*tensors)
    arrays = [jnp.asarray(x, dtype) for x in tensors]
    return jnp.stack(arrays, axis=axis_of(arrays[0], dim, more=1))


def block_diag(tensors: Sequence[ArrayLike]) -> Array:
    """A matrix with these matrices along its diagonal; a vector is a row."""
    dtype = common_dtype(*tensors)
    blocks = [jnp.atleast_2d(jnp.asarray(x, dtype)) for x in tensors]
    total = jnp.zeros((sum(x.shape[0] for x in blocks), sum(x.shape[1] for x in blocks)), dtype)
    row = column = 0
    for x in blocks:
        total = lax.dynamic_update_slice(total, x, (row, column))
        row, column = row + x.shape[0], column + x.shape[1]
    return total


def select_scatter(self: ArrayLike, src: ArrayLike, dim: int, index: int) -> Array:
    """self with src as one entry of an axis."""
    x = jnp.asarray(self)
    return x.at[(*(slice(None),) * axis_of(x, dim), index)].set(jnp.asarray(src, x.dtype))


def slice_scatter(
    self: ArrayLike, src: ArrayLike, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    """self with src as a range of an axis."""
    x = jnp.asarray(self)
    return x.at[_sliced(x, dim, start, end, step)].set(jnp.asarray(src, x.dtype))


def slice_inverse(
    self: ArrayLike, src: ArrayLike, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    """The array like src of which self is a range of an axis; in PyTorch, of which it is a view."""
    return slice_scatter(src, self, dim, start, end, step)


def diagonal_scatter(self: ArrayLike, src: ArrayLike, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """self with src as the diagonal of two axes."""
    x = jnp.asarray(self)
    x = jnp.moveaxis(x, (axis_of(x, dim1), axis_of(x, dim2)), (-2, -1))
    n = jnp.shape(src)[-1]
    rows = jnp.arange(n) + max(-offset, 0)
    columns = jnp.arange(n) + max(offset, 0)
    return jnp.moveaxis(x.at[..., rows, columns].set(jnp.asarray(src, x.dtype)), (-2, -1), (dim1, dim2))


def clone(self: ArrayLike) -> Array:
    """self."""
    return jnp.asarray(self)


def detach(self: ArrayLike) -> Array:
    """self, as a constant."""
    return lax.stop_gradient(jnp.asarray(self))


def _to_copy(self: ArrayLike, *, dtype: Any = None) -> Array:
    """self with another dtype; a complex number becomes its real part."""
    x = jnp.asarray(self)
    if dtype is None:
        return x
    real = jnp.iscomplexobj(x) and not jnp.issubdtype(dtype, jnp.complexfloating)
    return (x.real if real else x).astype(dtype)


def _reshape_alias(self: ArrayLike, size: Sequence[int], stride: Sequence[int]) -> Array:
    """self with another shape; strides, which say where entries lie in memory, have no meaning here."""
    return view(self, size)


OPERATORS = {
    "slice": _slice,
    "_to_copy": _to_copy,
    "_unsafe_view": view,
    "_reshape_alias": _reshape_alias,
    "_reshape_copy": view,
    "_lazy_clone": clone,
    "alias": clone,
    "lift": clone,
    "lift_fresh": clone,
    "contiguous": clone,
    "alias_copy": clone,
    "unsafe_split": split,
    "unsafe_chunk": chunk,
    "unsafe_split_with_sizes": split_with_sizes,
    "narrow_copy": narrow,
    "view_copy": view,
    "permute_copy": permute,
    "transpose_copy": transpose,
    "t_copy": t,
    "expand_copy": expand,
    "squeeze_copy": squeeze,
    "unsqueeze_copy": unsqueeze,
    "select_copy": select,
    "slice_copy": _slice,
    "split_copy": split,
    "split_with_sizes_copy": split_with_sizes,
    "unbind_copy": unbind,
    "diagonal_copy": diagonal,
    "unfold_copy": unfold,
    "as_strided_copy": as_strided,
    "detach_copy": detach,
    "concat": cat,
}
