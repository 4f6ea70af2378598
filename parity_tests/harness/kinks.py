"""Where an operator has no derivative: which answers are a convention, and which are wrong.

At a kink a derivative is a choice: |x| at 0 may have any slope from -1 to 1, and JAX and PyTorch choose differently
(of max(x, y) at x = y, of a sort with ties, of a norm at 0). The choices are what lies between the derivatives nearby:
F. H. Clarke, Optimization and Nonsmooth Analysis (1983), theorem 2.5.1. Entry by entry, that is an interval from the
smallest to the largest limit of the oracle's derivative as the point is approached from several sides. The same holds
for a value at a jump.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness import bridge
from parity_tests.harness.findings import Comparison, Convention, Fact, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.precision import FLOAT64
from parity_tests.harness.trial import Trial

# Relative distances. Over the smaller one a smooth derivative changes 2**20 times less, one that jumps as much as over
# the larger one, and one without limit far more.
_FAR, _NEAR = 2.0**-20, 2.0**-40
_RANDOM = 32  # directions, besides those along single entries: a tie of n is broken in favour of each of them
_ENTRIES = 32


def settled(
    trial: Trial, name: str, args: Sequence[np.ndarray], findings: Sequence[Finding], circumstance: str
) -> Iterator[Finding]:
    """Findings on a map at a special point, where what lies between the one-sided derivatives is right, too.

    The oracle is asked for these only if a comparison fails, or if it has no number of its own, in some hundred
    evaluations.
    """
    open_questions = [f for f in findings if isinstance(f, Comparison) and _in_question(trial, f).any()]
    limits = _limits(trial, name, args) if open_questions else {}
    binding = {slot.label for slot in trial.oracle.map(name).results if slot.like in trial.oracle.spec.conventions}
    for f in findings:
        if f not in open_questions or f.label in binding:
            yield f
            continue
        limit, asked = limits[f.label], _in_question(trial, f)
        low, high, known = limit.low, limit.high, limit.known
        inside = np.clip(np.where(np.isnan(f.candidate), np.inf, f.candidate), low, high)
        # To first order an error is proportional to the roundoff.
        near = limit.bound * trial.precision.u / FLOAT64.u
        allowed = np.where(np.isfinite(f.bound), np.maximum(f.bound, near), near)
        compared = replace(
            f,
            oracle=np.where(asked & known, inside, f.oracle),
            bound=np.where(asked, np.where(known, allowed, np.inf), f.bound),
        )
        yield compared
        if not compared.holds or not (asked & known).any():
            continue
        if _is_gradient(name) and limit.sum is not None and abs(f.candidate.sum() - limit.sum) > compared.bound.sum():
            text = f"adds up to {f.candidate.sum():g}, every derivative nearby to {limit.sum:g}"
            yield Fact(f.label, False, text, circumstance)
        else:
            i = tuple(int(k) for k in np.argwhere(asked & known)[0])
            text = f"{f.candidate[i]:g} where the oracle has {f.oracle[i]:g}, and {low[i]:g} to {high[i]:g} nearby"
            yield Convention(f.label, text, circumstance)


def _in_question(trial: Trial, f: Comparison) -> np.ndarray:
    """The entries that are wrong, or, in float64, where the candidate has a number and the oracle has none."""
    return f.wrong | (np.isnan(f.oracle) & np.isfinite(f.candidate) & (trial.precision is FLOAT64))


def _is_gradient(name: str) -> bool:
    return bool(ORDERS[name]) and ORDERS[name][-1] == "vjp"


@dataclass(frozen=True, eq=False)
class _Limit:
    """What a result of a map tends to, entry by entry.

    `low`, `high`: the smallest and the largest limit; `bound`: their error; `known`: is there a limit? `sum`: what all
    entries together add up to, if that is the same nearby on every side. Then it is so at the point: to give each of n
    equal numbers the whole gradient of their maximum is wrong, although each might have it alone.
    """

    low: np.ndarray
    high: np.ndarray
    bound: np.ndarray
    known: np.ndarray
    sum: float | None


def _limits(trial: Trial, name: str, args: Sequence[np.ndarray]) -> dict[str, _Limit]:
    """The limits of each result of a map, by its label."""
    directions = list(_directions(trial))
    near, far = _range(trial, name, args, directions, _NEAR), _range(trial, name, args, directions[-_RANDOM:], _FAR)
    at = [value for value, _ in trial.truth(name, args)]
    limits = {}
    for slot, value, (low, high, bound, noise, sums), (low_far, high_far, *_) in zip(
        trial.oracle.map(name).results, at, near, far, strict=True
    ):
        with np.errstate(invalid="ignore"):
            width, width_far = high - low, high_far - low_far
            # It grows as the point is approached, by more than the oracle itself errs: there is no derivative at all.
            size, size_far = np.maximum(np.abs(low), np.abs(high)), np.maximum(np.abs(low_far), np.abs(high_far))
            unbounded = size > 4 * size_far + noise
            jumps = (width > width_far / 4) & (width > 4 * noise)
        known = np.isfinite(width) & np.isfinite(width_far) & np.isfinite(bound)
        # Where it does not jump, or nothing is known nearby, the oracle's own value stands if there is one.
        stands = np.isfinite(value) & ~unbounded & ~(known & jumps)
        low, high, bound = (np.where(stands, x, y) for x, y in ((value, low), (value, high), (0.0, bound)))
        known = (known | stands) & ~unbounded
        # Further apart than what the small distance changes: a jump of the sum.
        constant = known.all() and np.ptp(sums) <= 2.0**-20 * np.sum(high - low)
        limits[slot.label] = _Limit(low, high, bound, known, float(sums[0]) if constant else None)
    return limits


def _range(trial: Trial, name: str, args: Sequence[np.ndarray], directions, h: float) -> list[tuple]:
    """Of each result of a map at a distance h in every direction: smallest, largest, error, largest error, every sum.

    The largest error is that of the oracle where every entry has moved the least: f(x) / x near 0 loses the most there.
    """
    count, present = len(trial.oracle.inputs), list(args)
    steps = [np.stack(d) for d in zip(*directions, strict=True)]
    least = [np.take_along_axis(d, np.where(d == 0, np.inf, np.abs(d)).argmin(0)[None], 0)[0] for d in steps]
    with np.errstate(invalid="ignore"):  # infinity less infinity
        scales = [h * np.where(x == 0, 1.0, np.abs(x)) for x in present[:count]]
        moved = [x + scale * d for x, scale, d in zip(present, scales, steps, strict=False)]
        nearest = [x + scale * d for x, scale, d in zip(present, scales, least, strict=False)]
    ranges = []
    values = trial.oracle.values_along(name, moved, present[count:])
    errors = trial.oracle.truth(name, [*(x[-1] for x in moved), *present[count:]], FLOAT64)
    largest = trial.oracle.truth(name, [*nearest, *present[count:]], FLOAT64)
    for slot, several, (_, bound), (_, noise) in zip(
        trial.oracle.map(name).results, values, errors, largest, strict=True
    ):
        if name != "forward":
            several = np.stack([trial.oracle.directed(slot.like, x) for x in several])
            bound, noise = (trial.oracle.directed(slot.like, e) for e in (bound, noise))
        noise = np.where(np.isfinite(noise), np.maximum(bound, noise), 0.0)
        outside = np.isnan(several)  # of the domain, where nothing is approached
        low, high = np.where(outside, np.inf, several).min(0), np.where(outside, -np.inf, several).max(0)
        sums = np.where(outside, 0.0, several).reshape(len(several), -1).sum(1)
        ranges.append((low, high, bound, noise, sums))
    return ranges


def _directions(trial: Trial) -> Iterator[list[np.ndarray]]:
    """Directions that stay in every input's domain: along each entry and against it, and random ones."""
    names, shapes = trial.oracle.inputs, trial.sample.shapes
    rng = np.random.default_rng(trial.sample.seed)
    entries = [(i, j) for i, shape in enumerate(shapes) for j in range(int(np.prod(shape)))]
    for k in rng.permutation(len(entries))[:_ENTRIES]:
        i, j = entries[k]
        for sign in (1.0, -1.0):
            direction = [np.zeros(shape) for shape in shapes]
            direction[i].flat[j] = sign
            yield [trial.oracle.directed(n, d) for n, d in zip(names, direction, strict=True)]
    for _ in range(_RANDOM):
        yield [trial.oracle.directed(n, rng.standard_normal(s)) for n, s in zip(names, shapes, strict=True)]


def of_nan(trial: Trial, args: Sequence[np.ndarray], results: Sequence, circumstance: str) -> Iterator[Finding]:
    """A convention for each output that is a number where the oracle's is not: a choice, too."""
    for slot, y, (value, _) in zip(
        trial.oracle.map("forward").results, results, trial.truth("forward", args), strict=True
    ):
        hidden = int((np.isnan(value) & ~np.isnan(bridge.to_numpy(y))).sum())
        if hidden:
            yield Convention(slot.label, f"a number in {hidden} entries where the oracle has NaN", circumstance)
