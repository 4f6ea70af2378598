"""The value of lax.dot_general as a product of matrices."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
DimensionNumbers = tuple[tuple[Shape, Shape], tuple[Shape, Shape]]


class Matrices(NamedTuple):
    """How the operands of dot_general become stacks of matrices: the order of their axes, and their shapes.

    None where an operand, or the product, is as it is already.
    """

    order_x: Shape | None
    left: Shape | None
    order_y: Shape | None
    right: Shape | None
    result: Shape | None


@functools.lru_cache(maxsize=4096)
def as_matrices(x: Shape, y: Shape, dimension_numbers: DimensionNumbers) -> Matrices:
    """The layout for operands of these shapes, which takes longer to find than a product of small matrices."""
    (axes_x, axes_y), (batch_x, batch_y) = dimension_numbers
    free_x = [i for i in range(len(x)) if i not in (*axes_x, *batch_x)]
    free_y = [i for i in range(len(y)) if i not in (*axes_y, *batch_y)]
    batch, K = [x[i] for i in batch_x], math.prod(x[i] for i in axes_x)
    rows, columns = [x[i] for i in free_x], [y[i] for i in free_y]
    stacked = [math.prod(batch)] if batch else []
    order_x, left = (*batch_x, *free_x, *axes_x), (*stacked, math.prod(rows), K)
    order_y, right = (*batch_y, *axes_y, *free_y), (*stacked, K, math.prod(columns))
    product, result = (*stacked, math.prod(rows), math.prod(columns)), (*batch, *rows, *columns)
    return Matrices(
        _unless(order_x, tuple(range(len(x)))),
        _unless(left, tuple(x[i] for i in order_x)),
        _unless(order_y, tuple(range(len(y)))),
        _unless(right, tuple(y[i] for i in order_y)),
        _unless(result, product),
    )


def _unless(wanted: Shape, present: Shape) -> Shape | None:
    return None if wanted == present else wanted


def product(x: np.ndarray, y: np.ndarray, layout: Matrices) -> np.ndarray:
    """The product of two operands that `as_matrices` has found the layout for."""
    order_x, left, order_y, right, result = layout
    x = x if order_x is None else x.transpose(order_x)
    y = y if order_y is None else y.transpose(order_y)
    made = (x if left is None else x.reshape(left)) @ (y if right is None else y.reshape(right))
    return made if result is None else made.reshape(result)


def contracted(x: np.ndarray, y: np.ndarray, dimension_numbers: DimensionNumbers, **_: Any) -> np.ndarray:
    """dot_general, as one product of matrices for each entry of the batch."""
    return product(x, y, as_matrices(x.shape, y.shape, dimension_numbers))
