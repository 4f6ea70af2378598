"""Systems with a triangular matrix, and factorizations, in any arithmetic: of a run's numbers, and of a field's.

Each is the textbook's algorithm. LU takes the rows in the order of the run's pivots; its factors are rational functions
of the entries, and so is Cholesky's, but for its roots.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity_tests.harness.primitives.field.fields import Field
from parity_tests.harness.primitives.registry import Exact


@dataclass(frozen=True)
class Arithmetic:
    """The operations on arrays of numbers that the algorithms need."""

    mul: Callable[[np.ndarray, np.ndarray], np.ndarray]
    sub: Callable[[np.ndarray, np.ndarray], np.ndarray]
    div: Callable[[np.ndarray, np.ndarray], np.ndarray]
    root: Callable[[np.ndarray], np.ndarray]


OF_A_RUN = Arithmetic(operator.mul, operator.sub, operator.truediv, np.frompyfunc(lambda x: x.context.sqrt(x), 1, 1))


def of_a_field(field: Field) -> Arithmetic:
    """The arithmetic of residues."""
    return Arithmetic(field.mul, field.sub, lambda x, y: field.mul(x, field.inverse(y)), field.root)


def solved(
    of: Arithmetic,
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
    **_: Any,
) -> list[np.ndarray]:
    """triangular_solve: the solution of op(a) y = b, or of y op(a) = b."""
    right = not left_side
    if transpose_a != right:  # y op(a) = b is op(a)ᵀ yᵀ = bᵀ
        a = np.swapaxes(a, -1, -2)
    y = np.array(np.swapaxes(b, -1, -2) if right else b)
    n = a.shape[-1]
    order = range(n) if lower != (transpose_a != right) else range(n)[::-1]
    for place, i in enumerate(order):
        for j in order[:place]:
            y[..., i, :] = of.sub(y[..., i, :], of.mul(a[..., i, j, None], y[..., j, :]))
        if not unit_diagonal:
            y[..., i, :] = of.div(y[..., i, :], a[..., i, i, None])
    return [np.swapaxes(y, -1, -2) if right else y]


def pivoted(of: Arithmetic, x: np.ndarray, **_: Any) -> list[np.ndarray]:
    """lu: both factors in one matrix, with whom each row is exchanged in turn, and the order that comes of it."""
    *batch, rows, columns = x.shape
    count = min(rows, columns)
    exchanges, orders = np.zeros((*batch, count), np.int32), np.zeros((*batch, rows), np.int32)
    factors = np.empty(x.shape, object)
    for place in np.ndindex(*batch):
        a, order = np.array(x[place]), np.arange(rows, dtype=np.int32)
        for k in range(count):
            pivot = k + int(np.argmax(np.abs(a[k:, k])))
            a[[k, pivot]], order[[k, pivot]], exchanges[(*place, k)] = a[[pivot, k]], order[[pivot, k]], pivot
            _eliminate(of, a, k)
        factors[place], orders[place] = a, order
    return [factors, exchanges, orders]


def factored(of: Arithmetic, x: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Both factors of LU in one matrix, of the rows in these orders."""
    a = np.take_along_axis(x, orders[..., None].astype(int), -2)
    for k in range(min(a.shape[-2:])):
        _eliminate(of, a, k)
    return a


def _eliminate(of: Arithmetic, a: np.ndarray, k: int) -> None:
    """Subtract multiples of row k from those below, and write the factors where zeros would stand."""
    a[..., k + 1 :, k] = of.div(a[..., k + 1 :, k], a[..., k, k, None])
    product = of.mul(a[..., k + 1 :, k, None], a[..., k, None, k + 1 :])
    a[..., k + 1 :, k + 1 :] = of.sub(a[..., k + 1 :, k + 1 :], product)


def rooted(of: Arithmetic, x: np.ndarray, **_: Any) -> list[np.ndarray]:
    """cholesky: the factor of the matrix whose lower triangle this is."""
    a, n = np.array(x), x.shape[-1]
    for k in range(n):
        a[..., k, k] = of.root(a[..., k, k])
        a[..., k + 1 :, k] = of.div(a[..., k + 1 :, k], a[..., k, k, None])
        column = a[..., k + 1 :, k]
        a[..., k + 1 :, k + 1 :] = of.sub(a[..., k + 1 :, k + 1 :], of.mul(column[..., :, None], column[..., None, :]))
    below = np.tri(n, dtype=bool)
    return [np.where(below, a, np.zeros((), a.dtype) if a.dtype != object else x.flat[0] * 0)]


def in_a_run(algorithm: Callable[..., list[np.ndarray]]) -> Exact:
    """The value of a primitive by an algorithm, in a run's numbers."""
    return lambda mp, eqn, *x, **params: algorithm(OF_A_RUN, *x, **params)
