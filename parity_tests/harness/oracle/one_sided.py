"""The limits of a map as its inputs are approached from several sides: an interval for each entry of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.defined import OracleAtSample
from parity_tests.harness.oracle.oracle import Arrays

# Two distances from the point, relative to the inputs. Over the smaller one a smooth derivative changes 2**20 times
# less than over the larger one; one that jumps changes as much over both, and one that is unbounded far more.
FAR, NEAR = 2.0**-20, 2.0**-40
_AT_LEAST, _AT_MOST = 3, 8  # the error of a limit is computed in so many directions


@dataclass(frozen=True, eq=False)
class Limit:
    """The limits of one result of a map, entry by entry.

    Attributes:
        low, high: the smallest and the largest limit.
        bound: the error of both by rounding.
        drift: their error because they are evaluated at a distance from the point.
        known: True where there is a limit.
        sum: the sum of all entries of a gradient, if it is the same on every side of the point; otherwise None. If it
            is the same, the gradient at the point must have this sum, too: a maximum of n equal numbers may give its
            whole gradient to any one of them, but not to each of them.
    """

    low: np.ndarray
    high: np.ndarray
    bound: np.ndarray
    drift: np.ndarray
    known: np.ndarray
    sum: float | None


def limits_along(
    point: OracleAtSample,
    name: str,
    args: Arrays,
    directions: Sequence[Sequence[np.ndarray]],
    in_question: Mapping[str, np.ndarray],
    own_value_stands: bool = True,
) -> tuple[dict[str, Limit], float | None]:
    """The limits of each result of a map, by its label; and the sum of all gradients together, as in `Limit.sum`.

    Args:
        point: the oracle, at a sample and in a format.
        name: the map.
        args: the arguments of the map.
        directions: the directions from which the inputs are approached.
        in_question: by label, a mask of the entries whose limits matter.
        own_value_stands: whether the oracle's own value is taken where there is no jump; not where that is wrong.
    """
    near, far = (_range(point, name, args, directions, h, in_question) for h in (NEAR, FAR))
    truths = point.truth(name, args)
    gradient = bool(ORDERS[name]) and ORDERS[name][-1] == "vjp"
    limits, widths, totals = {}, [], []
    for truth, (low, high, bound, noise, sums), (low_far, high_far, _, noise_far, _) in zip(
        truths, near, far, strict=True
    ):
        value = truth.value
        with np.errstate(invalid="ignore"):
            width, width_far = high - low, high_far - low_far
            # A value that grows towards the point, by more than the oracle's own error, has no limit.
            size, size_far = np.maximum(np.abs(low), np.abs(high)), np.maximum(np.abs(low_far), np.abs(high_far))
            unbounded = size > 4 * size_far + noise
            # A jump is as high over the larger distance. Over the smaller one `noise` may be as large as the jump,
            # because the moved numbers differ by a few roundings only; then that of the larger distance decides.
            alike = (width < 4 * width_far) & (width_far > 4 * noise_far)
            jumps = (width > width_far / 4) & ((width > 4 * noise) | alike)
            # A smooth value changes in proportion to the distance, to first order.
            drift = 2 * np.maximum(np.abs(low_far - low), np.abs(high_far - high)) * (NEAR / FAR)
        known = np.isfinite(width) & np.isfinite(width_far) & np.isfinite(bound + drift)
        # Where there is no jump, or the limits are not known, the oracle's own value is taken if it is a number.
        stands = np.isfinite(value) & ~unbounded & ~(known & jumps) & own_value_stands
        # An oracle that chooses between entries may jump by less than its own error, which then counts.
        unseen = known & (width > width_far / 4) & point.oracle.chooses
        low, high = np.where(stands, value, low), np.where(stands, value, high)
        bound, drift = np.where(stands, np.where(unseen, noise + width, 0.0), bound), np.where(stands, 0.0, drift)
        known = (known | stands) & ~unbounded
        widths.append(np.sum(high - low) if known.all() else np.nan)
        totals.append(sums)
        limits[truth.label] = Limit(low, high, bound, drift, known, _constant(sums, widths[-1]) if gradient else None)
    return limits, _constant(np.sum(totals, axis=0), sum(widths)) if gradient else None


def _constant(sums: np.ndarray, width: float) -> float | None:
    """The sum of a gradient, if it is the same on every side, up to its change over the smaller distance; or None."""
    return float(sums[0]) if np.isfinite(sums).all() and np.ptp(sums) <= 2.0**-20 * width else None


def _range(
    point: OracleAtSample, name: str, args: Arrays, directions, h: float, in_question: Mapping[str, np.ndarray]
) -> list[tuple]:
    """For each result of a map, at the distance h in every direction: smallest, largest, errors, sums by direction.

    The errors are two: that of the limits, and the largest of all. The largest is the oracle's error at the point of
    which every entry has moved the least, since for example f(x) / x loses most digits nearest to 0.
    """
    count, present = len(point.oracle.inputs), list(args)
    steps = [np.stack(d) for d in zip(*directions, strict=True)]
    least = [np.take_along_axis(d, np.where(d == 0, np.inf, np.abs(d)).argmin(0)[None], 0)[0] for d in steps]
    there, nearest = (moved(present[:count], d, h) for d in (steps, least))
    ranges = []
    values = point.oracle.values_along(name, there, present[count:])
    slots = point.oracle.map(name).results
    ends = _at_the_ends(
        [(y, in_question[slot.label]) for slot, y in zip(slots, values, strict=True) if slot.label in in_question]
    )
    errors = [
        (i, point.oracle.evaluate(name, [*(x[i] for x in there), *present[count:]], FLOAT64))
        for i in dict.fromkeys([*ends, *range(len(steps[0]) - _AT_LEAST, len(steps[0]))])
    ]
    bounds = [_error_of_limits(y, [(i, e[k].bound) for i, e in errors]) for k, y in enumerate(values)]
    largest = point.oracle.ask(name, [*nearest, *present[count:]], FLOAT64)
    for several, bound, truth in zip(values, bounds, largest, strict=True):
        several, noise = np.stack([point.oracle.compared(name, truth.like, x) for x in several]), truth.bound
        bound, noise = (point.oracle.compared_errors(name, truth.like, e, several[0]) for e in (bound, noise))
        noise = np.where(np.isfinite(noise), np.maximum(bound, noise), 0.0)
        outside = np.isnan(several)  # outside of the domain, so that this direction does not count
        low, high = np.where(outside, np.inf, several).min(0), np.where(outside, -np.inf, several).max(0)
        with np.errstate(invalid="ignore"):  # infinities of both signs
            sums = np.where(outside, 0.0, several).reshape(len(several), -1).sum(1)
        ranges.append((low, high, bound, noise, sums))
    return ranges


def _ends(several: np.ndarray) -> np.ndarray:
    """Two masks, stacked: in which direction each entry is the smallest of all directions, and in which the largest."""
    with np.errstate(invalid="ignore"):
        low, high = np.nanmin(several, 0, initial=np.inf), np.nanmax(several, 0, initial=-np.inf)
        room = (high - low) / 1024
        return np.stack([several <= low + room, several >= high - room])


def _at_the_ends(results: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[int]:
    """A few directions in which together as many as possible of the entries that matter are smallest, and largest."""
    ends = [_ends(y)[:, :, in_question].swapaxes(0, 1).reshape(len(y), -1) for y, in_question in results]
    missing = np.concatenate(ends, axis=1) if ends else np.zeros((0, 0), bool)
    chosen: list[int] = []
    while missing.any() and len(chosen) < _AT_MOST:
        chosen.append(int(missing.sum(1).argmax()))
        missing = missing & ~missing[chosen[-1]]
    return chosen


def _error_of_limits(several: np.ndarray, errors: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """The error of the smallest and of the largest limit of a result.

    Of several directions at most one makes two numbers so nearly equal that rounding decides which is larger. The
    direction with the smallest error therefore counts; for an entry's smallest and largest limit, the one among the
    directions that have this limit, unless all of their errors exceed 1/1024 of the interval.

    Args:
        several: the result in every direction, along the first axis.
        errors: its error in some of the directions, with the index of the direction.
    """
    where, bounds = np.array([i for i, _ in errors]), np.stack([e for _, e in errors])
    at_ends, least = _ends(several)[:, where], bounds.min(0)
    of_ends = np.where(at_ends, bounds, np.inf).min(1)
    with np.errstate(invalid="ignore"):
        apart = np.nanmax(several, 0, initial=-np.inf) - np.nanmin(several, 0, initial=np.inf)
    return np.maximum(least, np.where(of_ends < apart / 1024, of_ends, 0.0).max(0))


def moved(args: Sequence, direction: Sequence[np.ndarray], h: float) -> list:
    """Return the arguments of a map, its inputs moved by the relative distance h (or by h, where they are 0)."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        inputs = [x + h * np.where(x == 0, 1.0, np.abs(x)) * d for x, d in zip(args, direction, strict=False)]
    return [*inputs, *args[len(inputs) :]]
