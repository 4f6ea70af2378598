"""Whether an explanation fits a wrong result, and how unlikely that is by accident."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from parity_tests.harness.findings import Comparison

_DECISIVE = 3  # times the bounds of both: an error from which one explanation can be told from another
_SYSTEMATIC = 30  # likewise, if numbers were fitted: mistakes that grow everywhere alike are nearly proportional
SIMPLE_NUMBERS = 2.0  # how many there are to choose from, in powers of ten
ENOUGH = 6  # powers of ten by which an agreement must be unlikely
_SIMPLE = 0.1  # q², about the number of fractions from 0 to 1 with denominators up to q, times an interval's width
_SHARP = 1e-6  # relative width of an interval that says which number it is
_MOST = 16.0  # powers of ten that one entry can count for: a double has no more digits


@dataclass(frozen=True, eq=False)
class Explanation:
    """A possible explanation of a wrong result: a text, the values that it predicts, their error bound.

    `bound`: the error of a right computation of these values. `parameters`: how many numbers in them were taken from
    the result itself. `choices`: from how many the explanation was chosen, in powers of ten.
    """

    text: str
    value: np.ndarray
    bound: np.ndarray | float = 0.0
    parameters: int = 0
    choices: float = 0.0


def unique_fit(wrong: Comparison, family: Iterable[Explanation]) -> tuple[str | None, bool]:
    """The text of the one explanation that fits; None if none does, or several: then it is not known which is true.

    The second result says whether any fits.
    """
    explanations = list(family)
    needed = ENOUGH + math.log10(max(len(explanations), 1))
    texts = [e.text for e in explanations if log10_odds(wrong, e) >= needed]
    return (texts[0] if len(texts) == 1 else None), bool(texts)


def log10_odds(wrong: Comparison, explanation: Explanation) -> float:
    """How unlikely it is, in powers of ten, that a result is within rounding of an explanation by accident.

    A wrong entry is off by its error; that it is within its bound of something else by accident has a chance of bound
    over error, and counts if that is small. Entries that the explanation says to be 0 count nothing: too much is.
    Negative if it does not fit.
    """
    value = explanation.value
    if value.shape != wrong.oracle.shape:
        return -1.0
    known = np.isfinite(wrong.bound) & np.isfinite(wrong.oracle)
    with np.errstate(all="ignore"):
        allowed = wrong.bound + explanation.bound
        off, error = np.abs(wrong.candidate - value), wrong.error
        if not (off <= explanation.bound)[known].all():
            return -1.0
        clear = _SYSTEMATIC if explanation.parameters else _DECISIVE
        telling = known & wrong.wrong & (error > clear * allowed) & (np.abs(value) > allowed)
        counts = _powers_of_ten(error[telling], allowed[telling])
    if len(counts) < max(2, 1 + explanation.parameters):
        return 0.0
    return float(counts[: len(counts) - explanation.parameters].sum()) - explanation.choices


def log10_power(error: np.ndarray, bound: np.ndarray) -> float:
    """How unlikely it is, in powers of ten, that entries off by these errors are within their bounds by accident."""
    telling = np.isfinite(bound) & (error > _DECISIVE * bound)
    counts = _powers_of_ten(error[telling], bound[telling])
    return float(counts.sum()) if len(counts) > 1 else 0.0


def _powers_of_ten(error: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the powers of ten that each entry counts for, in ascending order: the chance is bound over error."""
    with np.errstate(divide="ignore"):
        return np.sort(np.minimum(np.log10(error / allowed), _MOST))


def scale_interval(
    result: np.ndarray, bound: np.ndarray | float, reference: np.ndarray, own: np.ndarray | float = 0.0
) -> tuple[float, float] | None:
    """The real numbers c with result = c * reference, to within |c| * bound + own everywhere: an interval.

    None if there are none.
    """
    bound, own = np.broadcast_to(bound, result.shape), np.broadcast_to(own, result.shape)
    if np.iscomplexobj(result):  # real numbers, that fit both parts
        result, reference = (np.stack([np.real(x), np.imag(x)]) for x in (result, reference))
        bound, own = np.stack([bound] * 2), np.stack([own] * 2)
    known = np.isfinite(bound + own) & np.isfinite(reference) & np.isfinite(result) & (reference != 0)
    x, y = reference[known], result[known]
    square = float(np.sum(x * x))
    if square == 0:
        return None
    allowed = bound[known] * abs(float(np.sum(x * y)) / square) + own[known]
    ends = np.stack([(y - allowed) / x, (y + allowed) / x])
    low, high = float(ends.min(0).max()), float(ends.max(0).min())
    return (low, high) if low <= high else None


def as_simple_number(low: float, high: float) -> tuple[float, str, bool] | None:
    """A number of an interval, its text, and whether people write it (3, 0.5, 1/3), so that it is hardly an accident.

    None if it is no such number, nor known to six digits: then too many would do.
    """
    middle, width = (low + high) / 2, high - low
    if low <= 0 <= high:
        return 0.0, "0", True
    for q in range(1, 129):
        p = round(middle * q)
        if low <= p / q <= high and p and width * q * q < _SIMPLE:
            return p / q, f"{p / q:g}" if Fraction(f"{p / q:.3g}") == Fraction(p, q) else f"{p}/{q}", True
    if width > _SHARP * abs(middle):
        return None
    return middle, f"(1 {middle - 1:+.3g})" if abs(middle - 1) < 1e-3 else f"{middle:.6g}", False
