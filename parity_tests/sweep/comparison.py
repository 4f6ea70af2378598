"""Where two results differ, and what the slopes say of a number in which they do."""

from __future__ import annotations

import math

import numpy as np

from parity_tests.sweep.lines import Verdict
from parity_tests.sweep.slopes import Slopes

HALF_OF_THE_DIGITS = 2.0**-26  # of float64: what differs in more is wrong, what differs in less may be rounding
MOST_OF_THE_DIGITS = 2.0**-40  # what agrees in these has lost no digits
_UNDERFLOWS = 1e-290  # below which intermediate results may have lost digits to underflow


def differing(found: np.ndarray, other: np.ndarray, limit: float, entrywise: bool) -> np.ndarray:
    """Return where two results differ by more than a part of their size; two NaN, or equal infinities, do not.

    Args:
        found, other: of the same shape.
        limit: the part.
        entrywise: each number is its own measure; else the largest finite one of a result is the measure of all.
    """
    with np.errstate(all="ignore"):
        same = (found == other) | (np.isnan(found) & np.isnan(other))
        near = np.abs(found - other) <= limit * np.maximum(np.abs(found), np.abs(other)) + _UNDERFLOWS
    near = near & np.isfinite(found) & np.isfinite(other)
    return ~(same | near) if entrywise else ~(same | near | _within(found, other, limit))


def _within(found: np.ndarray, other: np.ndarray, limit: float) -> np.ndarray:
    """Where finite numbers differ by less than a part of the largest."""
    finite = np.isfinite(found) & np.isfinite(other)
    largest = np.abs(np.where(finite, other, 0)).max(initial=0)
    with np.errstate(all="ignore"):
        return finite & (np.abs(found - other) <= limit * largest)


def decided(pytorch: float, jax: float, slopes: Slopes, scale: float) -> tuple[Verdict, str]:
    """Return who is right about a number, and the reason in words.

    Args:
        pytorch, jax: real numbers that differ.
        slopes: of the function that is differentiated.
        scale: a size below half of whose digits numbers are rounding; 0 if the number is its own measure.
    """
    if any(map(math.isinf, (slopes.behind, slopes.ahead))):
        return Verdict.CONVENTION, "the function has no finite derivative there"
    if not slopes.known:
        return Verdict.UNDECIDED, "differences do not converge"
    size = max(abs(slopes.low), abs(slopes.high), scale)
    room = 2 * slopes.error + HALF_OF_THE_DIGITS * size + _UNDERFLOWS
    right = [slopes.low - room <= value <= slopes.high + room for value in (pytorch, jax)]
    if all(right) and not slopes.smooth:
        return Verdict.CONVENTION, "the function has a kink there"
    if all(right):
        apart = abs(pytorch - jax)
        if apart > 4 * HALF_OF_THE_DIGITS * size + _UNDERFLOWS:
            return Verdict.UNDECIDED, "differences are not exact enough"
        return _digits(pytorch, jax, slopes)
    wrong = {(False, True): Verdict.WRONG_IN_PYTORCH, (True, False): Verdict.WRONG_IN_JAX}
    return wrong.get((right[0], right[1]), Verdict.WRONG_IN_BOTH), ""


def _digits(pytorch: float, jax: float, slopes: Slopes) -> tuple[Verdict, str]:
    """Who loses digits, where the slopes are known to more than numbers of float64 have."""
    size = max(abs(slopes.low), abs(slopes.high))
    if slopes.error > MOST_OF_THE_DIGITS * size:
        return Verdict.AGREES, ""
    off = {name: abs(value - slopes.high) for name, value in (("PyTorch", pytorch), ("JAX", jax))}
    losing = {name: d for name, d in off.items() if d > MOST_OF_THE_DIGITS * size + _UNDERFLOWS}
    if not losing:
        return Verdict.AGREES, ""
    told = [f"{name} has {max(0, math.floor(-math.log10(d / size)))} digits" for name, d in losing.items()]
    return Verdict.LOSES_DIGITS, " and ".join(told)
