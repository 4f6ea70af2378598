"""Functions that the rules share: roundings of elementary functions, underflow, and bounds where a result overflows."""

from __future__ import annotations

import math

import numpy as np

from parity_tests.harness.numbers.formats import FLOAT64, Precision

ELEMENTARY = 8  # roundings (in the accumulator's format) of an elementary function, before two to store and re-use it


def every(x: np.ndarray) -> bool:
    """Return whether all entries of a boolean array are true; `x.all()` takes three times as long for a small one."""
    return np.count_nonzero(x) == x.size


def capped(y: np.ndarray, e: np.ndarray, precision: Precision) -> np.ndarray:
    """A bound of y; infinite where y may overflow, or is not defined."""
    if y.dtype.kind not in "fc":
        return e
    largest_possible = np.abs(y) + e
    if every(largest_possible <= precision.largest):
        return e
    # An infinity that the program has itself, as in a mask, is exact; what has become one is not.
    exact = np.isinf(y) & (e == 0)
    return np.where(np.isnan(e) | (largest_possible > precision.largest) & ~exact | np.isnan(y), np.inf, e)


def underflow(y, p):
    """Return the error that a product may have by underflow; 0 where it is exactly 0."""
    # A result that is exactly zero in float64 comes from a zero operand, and is exact in every format.
    return p.tiny if np.count_nonzero(y) == np.size(y) else np.where(y == 0, 0.0, p.tiny)


def relative(p):
    """An elementary function's own relative error."""
    return 2 * p.u + ELEMENTARY * p.u_acc


def own(y, p):
    """The error that an elementary function makes itself, at exact operands."""
    infinite, error = np.isinf(y), relative(p) * np.abs(y) + underflow(y, p)
    return np.where(infinite, 0.0, error) if np.count_nonzero(infinite) else error


def change(y, low, high):
    """How far y may be off if it is one of these, or between them; not at all where all are one infinity."""
    moved = np.maximum(np.abs(high - y), np.abs(low - y))
    return moved if every(np.isfinite(moved)) else np.where((low == y) & (high == y), 0.0, moved)


def largest_factor(value: np.ndarray, error: np.ndarray, precision: Precision, limit: float = math.inf) -> np.ndarray:
    """Return the factor of an operand in the largest partial product, as computed: its size, with one rounding, or 1.

    1 also where it may be anything, or exceeds the limit. See `rounding.products`.
    """
    largest = np.maximum((np.abs(value) + error) * (1 + precision.u), 1.0)
    if every(largest <= min(limit, FLOAT64.largest)):
        return largest
    return np.where(np.isfinite(largest) & (np.abs(value) <= limit), largest, 1.0)


def unless_part_of_product_overflows(bound: np.ndarray, representable: np.ndarray, precision: Precision) -> np.ndarray:
    """The bound of a product; infinite where one of its partial products, in whatever order, may overflow the format.

    Only of a format with `any_order`; see `rounding.products`.

    `representable`: the product of what its factors add to the largest one (`largest_factor`), but for those that
    exceed the format. It has one rounding more than there are, as n factors are multiplied n - 1 times; and what is
    less than half a spacing above the largest number is rounded to that.
    """
    if not precision.any_order:
        return bound
    fits = representable <= precision.largest * (1 + precision.u)
    return bound if every(fits) else np.where(fits, bound, np.inf)
