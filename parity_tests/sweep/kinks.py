"""Whether the map that a mode differentiates has a derivative at all: whether its slopes are linear in the direction.

The one-sided slopes along a single direction do not tell. The median of three equal numbers does not change if one of
them moves, to either side, so that its slope is 0; if all three move, it moves, too.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.sweep.cases import Arrays, Case, Side
from parity_tests.sweep.comparison import SOME_DIGITS
from parity_tests.sweep.witnesses import Path, paths, slopes_by

_FACTORS = (-4.0, 4.0)  # of the path's direction, beside normal numbers: so large that it decides which number is first
_OTHERS = 4  # directions for each factor: in one, the same of three equal numbers may be in the middle by chance
_STARTS = 64  # points nearby: of five equal numbers each is the median at many of them
_CONFIRMED = 2  # of these points, those at which slopes are asked
_NEAR = 2.0**-12  # relative: how far these points are; no tolerance


def has_kink(side: Side, case: Case, mode: str, path: Path) -> bool:
    """Return whether the slope along a path, added to those along another one, is not the slope along their sum.

    Args:
        side: whose values are asked.
        case, mode, path: see `witnesses`.

    Returns:
        False also where differences cannot tell.
    """
    rng = np.random.default_rng(0)

    def slope(direction: list[np.ndarray]) -> Slopes:
        return slopes_by(side, case, mode, dataclasses.replace(path, direction=direction), "")

    one = slope(list(path.direction))
    for factor in _FACTORS * _OTHERS:
        other = [rng.standard_normal(d.shape) if d.any() else np.zeros_like(d) for d in path.direction]
        both = slope([factor * d + x for d, x in zip(path.direction, other, strict=True)])
        if _is_another(both, slope(other), one, factor):
            return True
    return False


def all_together(side: Side, case: Case, mode: str, path: Path) -> Slopes | None:
    """Return the slope along which all entries of the input move by as much; None if there is a kink along that, too.

    Of equal numbers the largest moves then as each of them does, and so does the largest of their differences from
    others: whatever a framework chooses there, the sum of its derivatives is this slope.
    """
    ones = [np.ones_like(d) if d.any() else d for d in path.direction]
    slopes = slopes_by(side, case, mode, dataclasses.replace(path, direction=ones), "all entries of the input together")
    return slopes if slopes.known and slopes.smooth else None


def is_limit(
    side: Side, values: Side, case: Case, mode: str, arguments: Arrays, which: tuple[int, tuple[int, ...]], number: Any
) -> bool:
    """Return whether a number lies between those that its framework says nearby, where the slopes confirm them.

    Args:
        side: the framework's.
        values: whose values have the slopes.
        case, mode, arguments: see `witnesses.paths`.
        which: the number's index among the results, and its place.
        number: what the framework says.
    """
    rng, found = np.random.default_rng(0), []
    index, place = which
    for count in range(_STARTS):
        start = list(arguments)
        moved = next(paths(case, mode, arguments, index, place))
        for k, d in enumerate(moved.direction):
            start[k] = start[k] + _NEAR * moved.size * rng.standard_normal(d.shape) if d.any() else start[k]
        found.append(side(mode, start)[index][place])
        if count < _CONFIRMED and not _is_right(values, case, mode, start, which, found[-1]):
            return False
    return all(_lies_between(part(found), part(number)) for part in (np.real, np.imag))


def _is_right(
    values: Side, case: Case, mode: str, arguments: Arrays, which: tuple[int, tuple[int, ...]], number: Any
) -> bool:
    """Whether a number is what the slopes are."""
    parts = (np.real, np.imag) if np.iscomplexobj(number) else (np.real,)
    for path, part in zip(paths(case, mode, arguments, *which), parts, strict=True):
        # Steps that stay on this side of the kink
        slopes = slopes_by(values, case, mode, dataclasses.replace(path, size=_NEAR * path.size), "")
        off = abs(slopes.high - float(part(number)) / path.scale)
        if not slopes.known or off > 8 * slopes.error + SOME_DIGITS * abs(slopes.high):
            return False
    return True


def _lies_between(found: np.ndarray, number: float) -> bool:
    room = SOME_DIGITS * float(np.abs(found).max(initial=0))
    return bool(found.size and found.min() - room <= number <= found.max() + room)


def _is_another(both: Slopes, two: Slopes, one: Slopes, factor: float) -> bool:
    """Whether a slope is not another one plus a multiple of a third."""
    # Those ahead alone: along a negative multiple of a direction one goes to its other side
    third = factor * (one.ahead if factor > 0 else one.behind)
    found = [both.ahead, two.ahead, third]
    if not all(map(math.isfinite, found)):
        return False
    error = both.error + two.error + abs(factor) * one.error
    return abs(both.ahead - two.ahead - third) > 8 * error + SOME_DIGITS * max(map(abs, found))
