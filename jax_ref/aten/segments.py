"""Groups of rows: reductions of segments, bags of embeddings, packed sequences. What says the groups is known."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten._axes import axis_of

Array = jax.Array
_EMPTY = {"sum": 0.0, "mean": np.nan, "prod": 1.0, "max": -np.inf, "min": np.inf}


def _of_group(rows: Array, reduce: str, initial: float | None) -> Array:
    """The reduction of a group along its first axis, beginning with a number."""
    start = jnp.full(rows.shape[1:], _EMPTY[reduce] if initial is None else initial, rows.dtype)
    if not len(rows):
        return start
    if reduce == "prod":
        return start * rows.prod(0)
    if reduce in ("max", "min"):
        found = rows.max(0) if reduce == "max" else rows.min(0)
        return jnp.where(start > found if reduce == "max" else start < found, start, found)
    total = rows.sum(0) + (initial or 0.0)
    return total / len(rows) if reduce == "mean" else total


def segment_reduce(
    data: ArrayLike,
    reduce: str,
    *,
    lengths: Any = None,
    indices: None = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Array:
    """The sum, mean, product, maximum or minimum of segments along an axis, of these lengths or between these offsets.

    A segment's reduction begins with initial; that of an empty one is initial or, without it, what is neutral, and NaN
    of the mean. Lengths and offsets are integers that are known, not traced, with the axes of data before this one. The
    derivative of a maximum or minimum is shared by the entries that are equal to it; initial has no share.
    """
    x = jnp.asarray(data)
    axis = axis_of(x, axis)
    counts = np.asarray(lengths) if offsets is None else np.diff(np.asarray(offsets), axis=-1)
    starts = np.zeros(counts.shape[:-1], int) if offsets is None else np.asarray(offsets)[..., 0]
    batches = x.reshape(math.prod(x.shape[:axis]), *x.shape[axis:])
    rows = []
    for batch, sizes, start in zip(
        batches, counts.reshape(len(batches), counts.shape[-1]), starts.reshape(-1), strict=True
    ):
        ends = start + np.cumsum(sizes)
        groups = [batch[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        rows.append(jnp.stack([_of_group(group, reduce, initial) for group in groups]))
    return jnp.stack(rows).reshape(*x.shape[:axis], counts.shape[-1], *x.shape[axis + 1 :])


def _of_bag(rows: Array, mode: int) -> Array:
    if mode < 2:
        return rows.mean(0) if mode else rows.sum(0)
    first = jnp.argmax(jax.lax.stop_gradient(rows), 0)
    return jnp.take_along_axis(rows, first[None], 0)[0]


def _embedding_bag(
    weight: ArrayLike,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: ArrayLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array, Array, Array, Array]:
    """The sum (mode 0), mean (1) or maximum (2) of the rows of weight in each bag; the row padding_idx is in none.

    A bag begins at its offset and ends at the next one, of which the last is the number of indices if
    include_last_offset. The empty bag is 0. Indices and offsets are known, not traced. The other three results, the bag
    of each index, the sizes of the bags and the rows of the maxima, are for PyTorch's backward, and are empty here.

    The derivative of a maximum is that of the first of several equal rows. If scale_grad_by_freq, the derivative by a
    row is divided by how often its index occurs.
    """
    w, rows = jnp.asarray(weight), np.asarray(indices)
    found = w[rows]
    if scale_grad_by_freq:
        constant = jax.lax.stop_gradient(found)
        found = constant + (found - constant) / np.bincount(rows)[rows][:, None]
    if per_sample_weights is not None:
        found = found * jnp.asarray(per_sample_weights, w.dtype)[:, None]
    starts = np.asarray(offsets)
    ends = starts[1:] if include_last_offset else np.append(starts[1:], len(rows))
    places = np.arange(len(rows))
    bags = []
    for start, end in zip(starts, ends, strict=False):
        chosen = places[start:end][rows[start:end] != padding_idx] if padding_idx >= 0 else places[start:end]
        empty = jnp.zeros(w.shape[1:], w.dtype)
        bags.append(_of_bag(found[chosen], mode) if len(chosen) else empty)
    none = jnp.zeros(0, rows.dtype)
    return (jnp.stack(bags) if bags else jnp.zeros((0, *w.shape[1:]), w.dtype)), none, none, none


def _pack_padded_sequence(input: ArrayLike, lengths: Any, batch_first: bool) -> tuple[Array, Array]:
    """The entries of sequences of these lengths, which do not grow, by their time; and how many there are of each."""
    x, counts = jnp.asarray(input), np.asarray(lengths)
    rows = jnp.swapaxes(x, 0, 1) if batch_first else x
    sizes = [int((counts > time).sum()) for time in range(int(counts.max()))]
    return jnp.concatenate([rows[time, :size] for time, size in enumerate(sizes)]), jnp.asarray(sizes)


OPERATORS = {"_embedding_bag": _embedding_bag, "_pack_padded_sequence": _pack_padded_sequence}
