"""Explanations of a wrong result by its values alone, in families, the simplest first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from parity_tests.harness.diagnosis.fit import SIMPLE_NUMBERS, Explanation, as_simple_number, scale_interval
from parity_tests.harness.findings import Comparison

Family = list[Explanation]

_SMALL = 1e-6  # an error that nothing but numbers that are nearly right make
_FROM_ROUNDING = 1e3  # times the bound of rounding


def by_a_simple_factor(wrong: Comparison, sizes: Mapping[str, int]) -> Family:
    """Explain by a simple factor: 0.5 * oracle, -oracle, 5 * oracle where an axis is of size 5."""
    return _scaled(wrong, sizes, simple=True)


def by_any_factor(wrong: Comparison) -> Family:
    """Explain by any factor: 0.797885 * oracle."""
    return _scaled(wrong, {}, simple=False)


def _scaled(wrong: Comparison, sizes: Mapping[str, int], simple: bool) -> Family:
    interval = scale_interval(wrong.candidate, wrong.bound, wrong.oracle)
    number = None if interval is None else as_simple_number(*interval)
    if number is None or number[2] != simple:
        return []
    c, text, _ = number
    # An axis of size 2 explains no factor of 2: too much else does.
    axes = [axis for axis, size in sizes.items() if size > 2 and any(abs(c - x) < 1e-12 for x in (size, 1 / size))]
    of_an_axis = f" ({' or '.join(f'axis {axis} is {sizes[axis]}' for axis in axes)})" if axes else ""
    text = "-oracle (the sign)" if c == -1 else f"{text} * oracle{of_an_axis}"
    parameters, choices = (0, SIMPLE_NUMBERS) if simple else (1, 0.0)
    return [Explanation(f"{wrong.label} = {text}", c * wrong.oracle, abs(c) * wrong.bound, parameters, choices)]


def rearranged(wrong: Comparison) -> Family:
    """Explain by the oracle's result transposed, in the other memory order, or reversed along an axis."""

    def explanation(text, f):
        return Explanation(f"{wrong.label} = the oracle's, {text}", f(wrong.oracle), f(wrong.bound))

    shape, family = wrong.oracle.shape, []
    if len(shape) >= 2 and min(shape[-2:]) > 1:
        swapped = (*shape[:-2], shape[-1], shape[-2])
        if swapped == shape:
            family.append(explanation("transposed", lambda x: np.swapaxes(x, -1, -2)))
        else:
            family.append(explanation("transposed, then reshaped", lambda x: np.swapaxes(x, -1, -2).reshape(shape)))
            family.append(explanation("reshaped, then transposed", lambda x: np.swapaxes(x.reshape(swapped), -1, -2)))
    for axis, size in enumerate(shape):
        if size > 1:
            family.append(explanation(f"reversed along axis {axis}", lambda x, axis=axis: np.flip(x, axis)))
    return family


def other_results(wrong: Comparison, findings: Sequence[Comparison]) -> Family:
    """Explain by another result: the oracle's gradient of another input, or its other output."""
    return [
        Explanation(f"{wrong.label} = the oracle's {other.label}", other.oracle, other.bound)
        for other in findings
        if other.label != wrong.label and other.circumstance == wrong.circumstance
    ]


def elementwise(wrong: Comparison) -> Family:
    """Explain by an elementwise function of the oracle's result: |oracle|, its square, clamped."""
    label, x, e = wrong.label, wrong.oracle, wrong.bound
    with np.errstate(all="ignore"):
        family = [
            Explanation(f"{label} = |oracle|", np.abs(x), e),
            Explanation(f"{label} = -|oracle|", -np.abs(x), e),
            Explanation(f"{label} = oracle²", x * x, 2 * np.abs(x) * e + e * e),
        ]
    low, high = float(wrong.candidate.min()), float(wrong.candidate.max())
    above, below = int((x > high + 2 * e).sum()), int((x < low - 2 * e).sum())
    # One entry is the largest of any array; two that are equal, and less than they should be, are clamped.
    if above + below and above != 1 and below != 1:
        limits = [f"at most {high:.6g}"] * (above > 0) + [f"at least {low:.6g}"] * (below > 0)
        value = np.clip(x, low if below else None, high if above else None)
        family.append(Explanation(f"{label} = oracle, clamped to {', '.join(limits)}", value, e, len(limits)))
    return family


def spread(wrong: Comparison) -> Family:
    """Explain by the oracle's result summed or averaged over an axis, and broadcast again."""
    family, x, e = [], wrong.oracle, wrong.bound
    for axis, size in enumerate(x.shape):
        if size < 2:
            continue
        total, bound = (np.broadcast_to(a.sum(axis, keepdims=True), x.shape) for a in (x, e))
        for what, n in (("sum", 1), ("mean", size)):
            text = f"{wrong.label} = the {what} of the oracle's over axis {axis}, everywhere along it"
            family.append(Explanation(text, total / n, bound / n))
    return family


def by_a_factor_of_each_row(wrong: Comparison) -> Family:
    """Explain by a factor for each row of the oracle's result, or for each column."""
    family, x, y = [], wrong.oracle, wrong.candidate
    if x.ndim < 2 or min(x.shape) < 2 or not np.isfinite(x).all():
        return []
    for axis in range(x.ndim):
        others = tuple(i for i in range(x.ndim) if i != axis)
        square = (x * x).sum(others, keepdims=True)
        c = np.where(square > 0, (x * y).sum(others, keepdims=True) / np.where(square > 0, square, 1), 0.0)
        text = f"{wrong.label} = oracle, with a factor of its own for each index of axis {axis}"
        family.append(Explanation(text, c * x, np.abs(c) * wrong.bound, parameters=x.shape[axis]))
    return family


def where_it_is_wrong(wrong: Comparison) -> Family:
    """Explain by a factor of the wrong entries alone."""
    part = wrong.wrong
    interval = scale_interval(wrong.candidate[part], wrong.bound[part], wrong.oracle[part])
    number = None if interval is None else as_simple_number(*interval)
    if part.all() or number is None:
        return []
    c, text, simple = number
    parameters, choices = (0, SIMPLE_NUMBERS) if simple else (1, 0.0)
    value = np.where(part, c * wrong.oracle, wrong.oracle)
    text = f"the wrong entries of {wrong.label} are {'-oracle' if c == -1 else f'{text} * oracle'}"
    return [Explanation(text, value, np.where(part, abs(c) * wrong.bound, wrong.bound), parameters, choices)]


def in_another_order(wrong: Comparison) -> Family:
    """Explain by the oracle's entries in another order."""
    x, size = wrong.oracle, wrong.oracle.size
    if not np.isfinite(wrong.bound).all():
        return []
    value = np.empty(size)
    value[np.argsort(wrong.candidate, axis=None, kind="stable")] = np.sort(x, axis=None)
    choices = math.lgamma(size + 1) / math.log(10)
    text = f"{wrong.label} has the oracle's entries, in another order"
    return [Explanation(text, value.reshape(x.shape), wrong.bound.max(), choices=choices)]


def by_values(wrong: Comparison, findings: Sequence[Comparison], sizes: Mapping[str, int]) -> Iterator[Family]:
    """Yield the families that come first."""
    yield by_a_simple_factor(wrong, sizes)
    yield rearranged(wrong)
    yield other_results(wrong, findings)
    yield elementwise(wrong)
    yield where_it_is_wrong(wrong)


def by_complex_values(wrong: Comparison, findings: Sequence[Comparison], sizes: Mapping[str, int]) -> Iterator[Family]:
    """Yield the families that come first for complex values, which have no order."""
    yield by_a_simple_factor(wrong, sizes)
    yield rearranged(wrong)
    yield other_results(wrong, findings)
    yield where_it_is_wrong(wrong)


def less_specific(wrong: Comparison) -> Iterator[Family]:
    """Yield the families that come last."""
    yield spread(wrong)
    yield by_any_factor(wrong)
    yield by_a_factor_of_each_row(wrong)
    yield in_another_order(wrong)


def right_to_some_digits(wrong: Comparison) -> str | None:
    """How many digits are right, where most entries are off by a part that is small, and far from rounding.

    Such is a result of a constant that is written with few digits, or of an epsilon that is left out.
    """
    significant = np.isfinite(wrong.bound) & (np.abs(wrong.oracle) > wrong.bound)
    if np.count_nonzero(significant & wrong.wrong) < max(3, 0.9 * np.count_nonzero(significant)):
        return None
    off = float((wrong.error[significant] / np.abs(wrong.oracle[significant])).max())
    by_rounding = float((wrong.bound[significant] / np.abs(wrong.oracle[significant])).max())
    if not _FROM_ROUNDING * by_rounding < off < _SMALL:
        return None
    digits = int(-np.log10(off))
    return f"{wrong.label} is right to {digits} digits: a constant written with about as many, or an epsilon?"
