"""Rounding errors of reading from, writing to, and adding up in places that are named by an index."""

from __future__ import annotations

import numpy as np

from parity_tests.harness.evaluation import evaluated
from parity_tests.harness.rounding_elementary import underflow
from parity_tests.harness.rounding_terms import in_place, unless_part_overflows


def selected(eqn, x, e, y, p):
    # What is read from a place that rounding may change cannot be judged.
    moved = np.any(e[1] >= 0.5, axis=-1)
    moved = np.expand_dims(moved, eqn.params["dimension_numbers"].offset_dims)
    return np.where(moved, np.inf, np.asarray(evaluated(eqn, e[0], x[1])))


def sliced(eqn, x, e, y, p):
    return _unless_moved(e[1:], np.asarray(evaluated(eqn, e[0], *x[1:])))


def updated(eqn, x, e, y, p):
    return _unless_moved(e[2:], np.asarray(evaluated(eqn, e[0], e[1], *x[2:])))


def replaced(eqn, x, e, y, p):
    return _unless_moved_in_row(eqn, e[1], _scattered(eqn, x, e[0], e[2]))


def _scattered(eqn, x, operand, updates):
    """The primitive at real numbers; how it combines them is written down for the dtype of its own operands."""
    dtype = x[0].dtype
    combined = evaluated(eqn, operand.astype(dtype), x[1], updates.astype(dtype))
    return np.real(np.asarray(combined))


def _unless_moved(of_indices, bound):
    return np.full(bound.shape, np.inf) if any(np.any(e >= 0.5) for e in of_indices) else bound


def _unless_moved_in_row(eqn, of_index, bound):
    """Infinite in every example of a batch in which rounding may change a place that is written to."""
    moved, dims = np.any(of_index >= 0.5, axis=-1), eqn.params["dimension_numbers"]
    in_index, in_operand = dims.scatter_indices_batching_dims, dims.operand_batching_dims
    rows = moved.any(tuple(axis for axis in range(moved.ndim) if axis not in in_index))
    places = [in_operand[k] for k in np.argsort(in_index)]  # of the axes of rows, in the operand
    shape = [bound.shape[axis] if axis in places else 1 for axis in range(bound.ndim)]
    return np.where(rows.transpose(np.argsort(places)).reshape(shape), np.inf, bound)


def scattered_sum(eqn, x, e, y, p):
    def scattered(operand, updates):
        return _scattered(eqn, x, operand, updates)

    # Added up where it is stored, in the storage format: what PyTorch's index_add and a GPU's atomics do.
    magnitude = scattered(np.abs(x[0]), np.abs(x[2]))
    terms = scattered(np.ones(x[0].shape), np.ones(x[2].shape))
    own = in_place(terms, x[2], p.u) * magnitude + p.u * np.abs(y)
    bound = unless_part_overflows(scattered(e[0], e[2]) + own, magnitude, y, p)
    return _unless_moved_in_row(eqn, e[1], bound)


def scattered_product(eqn, x, e, y, p):
    def scattered(operand, updates):
        return np.asarray(evaluated(eqn, operand, x[1], updates))

    grown = scattered(np.abs(x[0]) + e[0], np.abs(x[2]) + e[2]) - np.abs(y)
    # With e as every factor the product counts them, by its logarithm.
    terms = np.log(scattered(np.ones_like(x[0]), np.full_like(x[2], np.e)))
    return _unless_moved_in_row(eqn, e[1], grown + terms * (p.u * np.abs(y) + underflow(y, p)))


RULES = {
    "gather": selected,
    "dynamic_slice": sliced,
    "dynamic_update_slice": updated,
    "scatter": replaced,
    "scatter-add": scattered_sum,
    "scatter-mul": scattered_product,
    "scatter_mul": scattered_product,
}
