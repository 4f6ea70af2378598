"""Where no computation can round: the sums and products of small integers.

An operation whose operands are exact and whose result, with every partial sum, is a number of the format has no
rounding error (IEEE 754: results are correctly rounded). With integers that holds in whatever order a right computation
adds and multiplies, so that all of them agree bit for bit.
"""

from __future__ import annotations

import math

import numpy as np

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.primitives.value.evaluated import evaluated

MAY_BE = Kind.SUM | Kind.PRODUCT | Kind.ADDS | Kind.MAY_BE_EXACT


def exact(eqn, x: list[np.ndarray], e: list[np.ndarray], y: np.ndarray, precision: Precision) -> bool:
    """True if an operation on these values, with these errors, makes no rounding error, however it is ordered."""
    name = eqn.primitive.name
    if any(map(np.count_nonzero, e)) or not has(name, MAY_BE):
        return False
    if not (np.isfinite(y).all() and _integers(y)):
        return False
    operands = [a for a in x if a.dtype.kind == "f"]
    if name == "div":  # by a power of two nothing is lost; by another number x / y and x (1 / y) differ
        return bool((np.frexp(x[1])[0] == 0.5).all()) and _fits(y, precision)
    if name == "mul" and any(a.ndim == 0 or a.size == 1 for a in operands):
        factor = next(a for a in operands if a.ndim == 0 or a.size == 1)
        if (np.frexp(np.abs(factor))[0] == 0.5).all():
            return _fits(y, precision)
    if not all(map(_integers, operands)):
        return False
    if name == "one_minus_square":
        return _fits(1 + operands[0] ** 2, precision)
    if has(name, Kind.ADDS):
        return _fits(np.abs(operands[0]) + np.abs(operands[1]), precision)
    if has(name, Kind.PRODUCT):
        return _fits(y, precision) and all(_fits(a, precision) for a in operands)
    if has(name, Kind.SUM):
        magnitude = np.asarray(evaluated(eqn, *(np.abs(a) if a.dtype.kind == "f" else a for a in x)))
        return _fits(magnitude, precision)
    return False


def _integers(x: np.ndarray) -> bool:
    return bool((x == np.rint(x)).all())


def _fits(x: np.ndarray, precision: Precision) -> bool:
    """True if these integers, and all smaller ones, are numbers of the format."""
    return float(np.max(np.abs(x), initial=0.0)) <= math.floor(1 / precision.u)
