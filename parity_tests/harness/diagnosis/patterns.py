"""Which entries of a result are wrong: a rule is stated only if it gives exactly them, and hardly by accident."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.digits import apart

BLOCKS = (16, 32, 64, 128)  # what kernels cut an axis into
_LISTED = 6  # rows that a message names one by one
_BY_ACCIDENT = 50  # a rule is stated if a random set of so many entries would fit any rule once in so many times


def pattern(comparison: Comparison, named: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None) -> str:
    """Which entries are wrong: "12/20 entries wrong, all in rows 32 to 34", "..., exactly where x < 0", ...

    `named`: arguments and outputs of the operator, with their error bounds; those of the result's shape take part.
    """
    wrong = comparison.wrong
    text = f"{int(wrong.sum())}/{wrong.size} entries wrong"
    if wrong.all() or wrong.ndim == 0:
        return text
    significant = wrong | (np.isfinite(comparison.bound) & (np.abs(comparison.oracle) > comparison.bound))
    where = _whole_rows(wrong, significant) or rule(wrong, significant, named or {}) or _within_rows(wrong)
    return f"{text}, {where}" if where else text


def rule(chosen: np.ndarray, significant: np.ndarray, named: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str | None:
    """The first rule whose entries, among those that can be told, are exactly the chosen ones: "exactly where x < 0".

    None if there is no such rule, or if one of those that were tried would fit by accident.
    """
    size, count = int(significant.sum()), int(chosen.sum())
    sets = {}  # of as many entries: only these could fit
    for text, members in (*_geometric(chosen.shape), *_by_value(chosen, significant, named)):
        members = members & significant
        if 1 < count < size and int(members.sum()) == count:
            sets.setdefault(members.tobytes(), text)
    if sets and math.comb(size, count) >= _BY_ACCIDENT * len(sets):
        return sets.get((chosen & significant).tobytes())
    return None


# Rows.


def _axes(ndim: int) -> Iterator[tuple[int, str]]:
    yield from zip(range(ndim), ("rows", "columns", "axis 2", "axis 3"), strict=False)


def _whole_rows(wrong: np.ndarray, significant: np.ndarray) -> str | None:
    """Rows, or columns, of which every entry is wrong that can be told, if they are an end or a border of blocks."""
    for axis, plural in _axes(wrong.ndim):
        size, others = wrong.shape[axis], tuple(i for i in range(wrong.ndim) if i != axis)
        hit = wrong.any(axis=others)
        if hit.all() or (np.expand_dims(hit, others) & significant & ~wrong).any():
            continue
        rows = np.flatnonzero(hit)
        fitting = [b for b in BLOCKS if b < size and size % b and np.array_equal(rows, np.arange(size // b * b, size))]
        if fitting:
            run = f"{rows[0]} to {rows[-1]}" if len(rows) > 1 else f"{rows[0]}"
            return f"all in {plural} {run} of {size}, beyond the last whole block of {_either(fitting)}"
        for text, member in _BORDERS.items():
            fitting = [b for b in BLOCKS if np.array_equal(rows, [i for i in range(size) if member(i, b, size)])]
            if fitting and (np.diff(rows) > 1).any():  # of one border alone anything else may be true
                return f"exactly the {plural} that are the {text} of {_either(fitting)}"
    return None


_BORDERS = {
    "last of a block": lambda i, b, size: i % b == b - 1 and i < size - 1,
    "first of a block, but for the first block,": lambda i, b, size: i % b == 0 and i > 0,
    "borders between blocks": lambda i, b, size: (i % b == 0 and i > 0) or (i % b == b - 1 and i < size - 1),
}


def _either(sizes: list[int]) -> str:
    return " or ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))


def _within_rows(wrong: np.ndarray) -> str | None:
    """A few rows, or a run of them, that all wrong entries are in."""
    for axis, plural in _axes(wrong.ndim):
        hit = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != axis)))
        if len(hit) == wrong.shape[axis]:
            continue
        if len(hit) > 1 and np.all(np.diff(hit) == 1):
            return f"all in {plural} {hit[0]} to {hit[-1]} of {wrong.shape[axis]}"
        if len(hit) <= _LISTED:
            return f"all in {plural} {', '.join(map(str, hit))} of {wrong.shape[axis]}"
    return None


# Other rules: (text, the entries that it means).


def _geometric(shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    if len(shape) < 2:
        return
    i, j = np.indices(shape)[-2:]
    n, m = shape[-2:]
    if n == m:
        yield "exactly the diagonal", i == j
        yield "exactly the entries off the diagonal", i != j
        yield "exactly the entries below the diagonal", i > j
        yield "exactly the entries above the diagonal", i < j
        yield "exactly the lower triangle, with the diagonal", i >= j
        yield "exactly the upper triangle, with the diagonal", i <= j
    yield "exactly the border of the matrix", (i == 0) | (i == n - 1) | (j == 0) | (j == m - 1)


def _by_value(
    chosen: np.ndarray, significant: np.ndarray, named: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> Iterator[tuple[str, np.ndarray]]:
    for name, (x, bound) in named.items():
        if x.shape != chosen.shape or not np.isfinite(x).all():
            continue
        yield f"exactly where {name} = 0", x == 0
        yield f"exactly where {name} < 0", x < 0
        yield f"exactly where {name} > 0", x > 0
        yield f"exactly where {name} is saturated: within rounding of its extremes", _saturated(x, bound)
        for axis in range(x.ndim):
            yield f"exactly where {name} has an equal along axis {axis}", _tied(x, axis)
        for text, values in ((name, x), (f"|{name}|", np.abs(x))):
            inside, outside, ordered = (
                values[chosen & significant],
                values[significant & ~chosen],
                np.sort(values[significant]),
            )
            if inside.size and outside.size:
                high, above = apart(float(inside.min()), float(outside.max()), sign="-")
                low, below = apart(float(inside.max()), float(outside.min()), sign="-")
                # Of both, since either could have fitted by accident; the text is that of the chosen entries.
                yield f"exactly where {text} >= {high} (elsewhere <= {above})", values >= ordered[-inside.size]
                yield f"exactly where {text} <= {low} (elsewhere >= {below})", values <= ordered[inside.size - 1]


def _saturated(x: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """True where x is at its largest or its smallest value to within rounding, if more than one entry is."""
    members = np.zeros(x.shape, bool)
    for extreme in (x.max(), x.min()):
        near = (x != extreme) & (np.abs(x - extreme) <= bound)
        members |= np.where(near.any(), near | (x == extreme), False)
    return members


def _tied(x: np.ndarray, axis: int) -> np.ndarray:
    order = np.argsort(x, axis=axis)
    ordered = np.take_along_axis(x, order, axis)
    same = np.diff(ordered, axis=axis) == 0
    first = np.concatenate([same, np.zeros_like(np.take(ordered, [0], axis), bool)], axis)
    last = np.concatenate([np.zeros_like(np.take(ordered, [0], axis), bool), same], axis)
    members = np.empty(x.shape, bool)
    np.put_along_axis(members, order, first | last, axis)
    return members
