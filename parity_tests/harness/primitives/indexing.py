"""Reading from, writing to, and adding up in places that are named by an index.

An index that rounding may change, such as the place of the largest entry, names one of several places: its bound says
how far from the oracle's it may be. What is read or written has a bound that covers all of them, as long as these are
not too many; an index that leads out of the array is not among them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from jax import lax
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.bound.base import underflow
from parity_tests.harness.primitives.bound.terms import in_place, unless_part_overflows
from parity_tests.harness.primitives.field.rules import linear
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import always, where
from parity_tests.harness.primitives.value.indexing import (
    gathered,
    may_combine,
    may_index,
    may_write,
    read,
    scattered,
    written,
)

_MOVES = Kind.MOVES_BY_INDEX
_MOST_PLACES = 512  # that an index may name


def _places(index: np.ndarray, e: np.ndarray, limits: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]] | None:
    """Every index that rounding may make of these, and for which of them it may; None if there are too many.

    Indices are along the last axis, from 0 to `limits`.
    """
    reach = np.floor(np.minimum(e, np.array(limits, float)) + 0.5).astype(np.int64)
    most = [int(n) for n in reach.reshape(-1, reach.shape[-1]).max(0, initial=0)]
    if np.prod([2.0 * n + 1 for n in most]) > _MOST_PLACES:
        return None

    def each() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for shift in itertools.product(*(range(-n, n + 1) for n in most)):
            moved = index.astype(np.int64) + np.array(shift, np.int64)
            inside = (moved >= 0) & (moved <= np.array(limits, np.int64)) | (np.array(shift) == 0)
            may = (np.abs(shift) <= reach) & inside
            yield np.where(may, moved, index).astype(index.dtype), may.all(-1)

    return each()


@primitive(of_jax.gather_p, kinds=_MOVES | Kind.HOMOGENEOUS, complex=BY_MODULUS, value=where(may_index, gathered))
def selected(eqn, x, e, y, p, *, dimension_numbers, slice_sizes):
    """All that may be read, and its error."""

    def at(operand, index):
        return np.asarray(evaluated(eqn, operand, index))

    bound = at(e[0], x[1])
    if not np.any(e[1] >= 0.5):
        return bound
    limits = [x[0].shape[axis] - slice_sizes[axis] for axis in dimension_numbers.start_index_map]
    places, offset_dims = _places(x[1], e[1], limits), dimension_numbers.offset_dims
    if places is None:
        moved = np.any(e[1] >= 0.5, axis=-1)
        return np.where(np.expand_dims(moved, offset_dims), np.inf, bound)
    for index, may in places:
        change = np.abs(at(x[0], index) * 1.0 - y * 1.0) + at(e[0], index)
        bound = np.where(np.expand_dims(may, offset_dims), np.maximum(bound, change), bound)
    return bound


@primitive(of_jax.dynamic_slice_p, kinds=_MOVES | Kind.HOMOGENEOUS, complex=BY_MODULUS, value=where(always, read))
def sliced(eqn, x, e, y, p):
    return _unless_moved(e[1:], np.asarray(evaluated(eqn, e[0], *x[1:])))


@primitive(
    of_jax.dynamic_update_slice_p,
    kinds=_MOVES | Kind.SMOOTH,
    complex=BY_MODULUS,
    value=where(lambda eqn, x: x[0].dtype == x[1].dtype, written),
)
def updated(eqn, x, e, y, p):
    return _unless_moved(e[2:], np.asarray(evaluated(eqn, e[0], e[1], *x[2:])))


@primitive(of_jax.scatter_p, kinds=_MOVES | Kind.SMOOTH, complex=BY_MODULUS, value=where(may_write, scattered(None)))
def replaced(eqn, x, e, y, p, *, dimension_numbers, mode):
    operand, index, updates = x
    bound = _scattered(eqn, x, e[0], e[2])
    if not np.any(e[1] >= 0.5):
        return bound
    limits = _limits_of_writing(dimension_numbers, operand, updates)
    places = None if np.iscomplexobj(y) else _places(index, e[1], limits)
    if places is None:
        return _unless_moved_in_row(dimension_numbers, e[1], bound)

    def extreme(scatter, operand, index, updates):
        return np.asarray(scatter(operand, index, updates, dimension_numbers, mode=mode))

    # What may be written to a place, or left there: between these.
    low, high, reached = operand - e[0], operand + e[0], np.zeros(operand.shape)
    wandering = _to_updates(dimension_numbers, np.any(e[1] >= 0.5, axis=-1), updates)
    for at, may in places:
        here = _to_updates(dimension_numbers, may, updates)
        low = extreme(lax.scatter_min, low, at, np.where(here > 0, updates - e[2], np.inf))
        high = extreme(lax.scatter_max, high, at, np.where(here > 0, updates + e[2], -np.inf))
        reached = extreme(lax.scatter_max, reached, at, here * wandering)
    return np.where(reached > 0, np.maximum(bound, np.maximum(high - y, y - low)), bound)


def _scattered(eqn, x, operand, updates):
    """The primitive at real numbers; how it combines them is written down for the dtype of its own operands."""
    dtype = x[0].dtype
    combined = evaluated(eqn, operand.astype(dtype), x[1], updates.astype(dtype))
    return np.real(np.asarray(combined))


def _unless_moved(of_indices, bound):
    return np.full(bound.shape, np.inf) if any(np.any(e >= 0.5) for e in of_indices) else bound


def _unless_moved_in_row(dims, of_index, bound):
    """Infinite in every example of a batch in which rounding may change a place that is written to."""
    moved = np.any(of_index >= 0.5, axis=-1)
    in_index, in_operand = dims.scatter_indices_batching_dims, dims.operand_batching_dims
    rows = moved.any(tuple(axis for axis in range(moved.ndim) if axis not in in_index))
    places = [in_operand[k] for k in np.argsort(in_index)]  # of the axes of rows, in the operand
    shape = [bound.shape[axis] if axis in places else 1 for axis in range(bound.ndim)]
    return np.where(rows.transpose(np.argsort(places)).reshape(shape), np.inf, bound)


def _exact_sum(mp, eqn, x, indices, updates):
    """Where each entry of the updates goes, the evaluation in float64 says of it alone."""
    y, none = x.copy(), np.zeros(x.shape)
    for i, update in enumerate(updates.flat):
        alone = np.zeros(updates.shape)
        alone.flat[i] = 1.0
        for place in np.argwhere(np.asarray(evaluated(eqn, none, indices, alone))):
            y[tuple(place)] = y[tuple(place)] + update
    return y


@primitive(
    of_jax.scatter_add_p,
    kinds=Kind.SUM,
    complex=BY_MODULUS,
    value=where(may_combine, scattered(np.add)),
    exact=_exact_sum,
    field=linear,
)
def scattered_sum(eqn, x, e, y, p, *, dimension_numbers):
    """Added up where it is stored, in the storage format: what PyTorch's index_add and a GPU's atomics do."""
    operand, index, updates = x
    magnitude = _scattered(eqn, x, np.abs(operand), np.abs(updates))
    terms = _scattered(eqn, x, np.ones(operand.shape), np.ones(updates.shape))
    passed_on = _scattered(eqn, x, e[0], e[2])
    spoilt = None
    if np.any(e[1] >= 0.5):
        places = _places(index, e[1], _limits_of_writing(dimension_numbers, operand, updates))
        if places is None:
            spoilt = e[1]
        else:
            wandering = _to_updates(dimension_numbers, np.any(e[1] >= 0.5, axis=-1), updates)
            for at, may in places:
                here = _to_updates(dimension_numbers, may, updates) * wandering
                there, zero = (operand, at, updates), np.zeros(operand.shape)
                passed_on = passed_on + _scattered(eqn, there, zero, here * (np.abs(updates) + e[2]))
                magnitude = magnitude + _scattered(eqn, there, zero, here * np.abs(updates))
                terms = terms + _scattered(eqn, there, zero, here)
    own = in_place(terms, updates, p.u) * magnitude + p.u * np.abs(y)
    bound = unless_part_overflows(passed_on + own, magnitude, y, p)
    return bound if spoilt is None else _unless_moved_in_row(dimension_numbers, spoilt, bound)


def _limits_of_writing(dims, operand, updates) -> list[int]:
    """The largest index along each axis at which an update fits."""
    windowed = [
        axis
        for axis in range(operand.ndim)
        if axis not in dims.inserted_window_dims and axis not in dims.operand_batching_dims
    ]
    sizes = dict(zip(windowed, (updates.shape[axis] for axis in dims.update_window_dims), strict=True))
    return [operand.shape[axis] - sizes.get(axis, 1) for axis in dims.scatter_dims_to_operand_dims]


def _to_updates(dims, of_index: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """Return an array of the updates' shape that has at each entry the number (1 or 0) of its index."""
    return np.broadcast_to(np.expand_dims(of_index * 1.0, dims.update_window_dims), updates.shape)


# JAX has called it scatter-mul and scatter_mul.
@primitive(of_jax.scatter_mul_p, "scatter_mul", value=where(may_combine, scattered(np.multiply)))
def scattered_product(eqn, x, e, y, p, *, dimension_numbers):
    def combined(operand, updates):
        return np.asarray(evaluated(eqn, operand, x[1], updates))

    grown = combined(np.abs(x[0]) + e[0], np.abs(x[2]) + e[2]) - np.abs(y)
    # With e as every factor the product counts them, by its logarithm.
    terms = np.log(combined(np.ones_like(x[0]), np.full_like(x[2], np.e)))
    bound = grown + terms * (p.u * np.abs(y) + underflow(y, p))
    return _unless_moved_in_row(dimension_numbers, e[1], bound)
