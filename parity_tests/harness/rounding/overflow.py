"""Numbers that may overflow to an infinity of their own sign, as a mask does of finfo.min, or of -1e9 in float16.

A number x with an error of at most E < |x|, where |x| + E exceeds the format, is within E of x, or infinite with the
sign of x. Nothing else is known of it, and for most operations it has no bound. But

    exp, tanh, ...       have at x what they have at the infinity, to all digits: `Kind.SATURATES`
    a maximum, a choice, a move
                         takes one of its operands
    x + y, x - y         is again such a number, if y is none: y is within the format, and neither changes the sign of x
                         where the sum is beyond it nor makes it a NaN; where it is not beyond it there is no bound
    x y                  the same where E = 0: a constant beyond the format, which a mask multiplies by 0 or 1

so that the softmax of a row with masked entries has a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.bound.base import capped
from parity_tests.harness.primitives.registry import Kind
from parity_tests.harness.rounding.steps import Step

_ADDS, _FUNCTION, _MONOTONE = Kind.ADDS.value, Kind.FUNCTION.value, Kind.MONOTONE.value
_TAKES = _ADDS | (Kind.MOVES | Kind.SELECTS | Kind.KEEPS_SIZE | Kind.SATURATES).value


class Overflowing(tuple[np.ndarray, np.ndarray]):
    """A value and its bound, which is infinite where the value may overflow.

    Attributes:
        within: the bound of a value that does not overflow, in the same shape.
    """

    within: np.ndarray

    def __new__(cls, pair: tuple[np.ndarray, np.ndarray], within: np.ndarray) -> Overflowing:
        made = super().__new__(cls, pair)
        made.within = within
        return made


def result(y: np.ndarray, bound: np.ndarray, precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """A value and its bound, of which `bound` is the one before it may have overflowed."""
    e = capped(y, bound, precision)
    if e is bound or y.dtype.kind != "f":
        return y, e
    overflows = np.isinf(e) & np.isfinite(y) & (bound < np.abs(y))
    return Overflowing((y, e), np.where(overflows, bound, e)) if np.count_nonzero(overflows) else (y, e)


def taken(step: Step, operands: Sequence[tuple]) -> list[np.ndarray]:
    """The bounds of a step's operands."""
    bounds, overflowing = [], []
    for pair in operands:
        bounds.append(pair[1])
        overflowing.append(type(pair) is Overflowing)
    if True not in overflowing:
        return bounds
    if step.name == "mul":
        return [np.where(within(pair) == 0, 0.0, bound) for pair, bound in zip(operands, bounds, strict=True)]
    if not step.kinds & _TAKES and not (step.kinds & _MONOTONE and not step.kinds & _FUNCTION):
        return bounds
    if step.kinds & _ADDS and all(overflowing):
        either = np.isinf(bounds[0]) | np.isinf(bounds[1])
        both = np.isinf(bounds[0]) & np.isinf(bounds[1])
        return [np.where(either & ~both, within(pair), bound) for pair, bound in zip(operands, bounds, strict=True)]
    return [within(pair) for pair in operands]


def within(pair: tuple) -> np.ndarray:
    """The bound of a number where it does not overflow."""
    return pair.within if type(pair) is Overflowing else pair[1]


def of_sum(step: Step, operands: Sequence[tuple], y: np.ndarray, bound: np.ndarray, precision: Precision) -> np.ndarray:
    """The bound of a sum: none where it is not beyond the format, and an operand may be."""
    if step.kinds & _ADDS:
        for pair in operands:
            if type(pair) is Overflowing:
                bound = np.where(np.isinf(pair[1]) & (np.abs(y) + bound <= precision.largest), np.inf, bound)
    return bound
