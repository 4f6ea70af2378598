"""Where an operator has no derivative: which answers are a convention, and which are wrong.

At a kink a derivative is a choice: |x| at 0 may have any slope from -1 to 1, and JAX and PyTorch choose differently
(of max(x, y) at x = y, of a sort with ties, of a norm at 0). The choices are what lies between the derivatives nearby:
F. H. Clarke, Optimization and Nonsmooth Analysis (1983), theorem 2.5.1. Entry by entry, that is an interval from the
smallest to the largest limit of the oracle's derivative as the point is approached from several sides. The same holds
for a value at a jump.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from parity_tests.harness import bridge
from parity_tests.harness.findings import Comparison, Convention, Fact, Finding
from parity_tests.harness.trial import Arrays, Trial

# Relative distances. Over the smaller one a smooth derivative changes 2**20 times less, one that jumps as much as over
# the larger one, and one without limit far more.
_FAR, _NEAR = 2.0**-20, 2.0**-40
_RANDOM = 64  # directions, besides one along every entry: a tie of n is broken in favour of each of them
_ENTRIES = 64  # at most so many entries get directions of their own


def settled(trial: Trial, name: str, args: Arrays, findings: Sequence[Finding], circumstance: str) -> Iterator[Finding]:
    """Findings on a map at a special point, where what lies between the one-sided derivatives is right, too.

    The oracle is asked for these only if a comparison fails, in about 2 (64 + the number of entries) evaluations.
    """
    if all(f.holds for f in findings):
        yield from findings
        return
    slots = trial.oracle.map(name).results
    limits = dict(zip((slot.label for slot in slots), _limits(trial, name, args), strict=True))
    like = {slot.label: slot.like for slot in slots}
    for f in findings:
        if f.holds or not isinstance(f, Comparison) or like[f.label] in trial.oracle.spec.conventions:
            yield f
            continue
        low, high, tellable = limits[f.label]
        inside = np.clip(np.where(np.isnan(f.candidate), np.inf, f.candidate), low, high)
        oracle = np.where(f.wrong & tellable, inside, f.oracle)
        bound = np.where(f.wrong & ~tellable, np.inf, f.bound)
        compared = Comparison(f.label, f.candidate, oracle, bound, f.circumstance)
        yield compared
        if compared.holds and (f.wrong & tellable).any():
            i = tuple(int(k) for k in np.argwhere(f.wrong & tellable)[0])
            text = f"{f.candidate[i]:g} where the oracle has {f.oracle[i]:g}, and {low[i]:g} to {high[i]:g} nearby"
            yield Convention(f.label, text, circumstance)


def _limits(trial: Trial, name: str, args: Arrays) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each result of a map the smallest and the largest limit, entry by entry, and where these are known."""
    directions = list(_directions(trial))
    far, near = (_range(trial, name, args, directions, h) for h in (_FAR, _NEAR))
    at = [value for value, _ in trial.truth(name, args)]
    limits = []
    for value, (low_far, high_far, _), (low, high, bound) in zip(at, far, near, strict=True):
        with np.errstate(invalid="ignore"):
            width, width_far = high - low, high_far - low_far
            # It grows as the point is approached: there is no derivative at all.
            unbounded = np.maximum(np.abs(low), np.abs(high)) > 4 * np.maximum(np.abs(low_far), np.abs(high_far))
            jumps = (width > width_far / 4) & (width > 4 * bound)
        known = np.isfinite(width) & np.isfinite(width_far) & np.isfinite(bound)
        # Where it does not jump, or nothing is known nearby, the oracle's own value stands if there is one.
        stands = np.isfinite(value) & ~unbounded & ~(known & jumps)
        low, high = np.where(stands, value, low - bound), np.where(stands, value, high + bound)
        limits.append((low, high, (known | stands) & ~unbounded))
    return limits


def _range(trial: Trial, name: str, args: Arrays, directions, h: float) -> list[tuple[np.ndarray, ...]]:
    """The smallest and the largest result of a map at a distance h in every direction, and the largest bound."""
    ranges: list[tuple[np.ndarray, ...]] = []
    count = len(trial.oracle.inputs)
    for direction in directions:
        with np.errstate(invalid="ignore"):  # infinity less infinity
            moved = [x + h * np.where(x == 0, 1.0, np.abs(x)) * d for x, d in zip(args, direction, strict=False)]
        truths = trial.oracle.evaluate(name, [*moved, *args[count:]], trial.precision)
        for i, (slot, (value, bound)) in enumerate(zip(trial.oracle.map(name).results, truths, strict=True)):
            if name != "forward":
                value, bound = (trial.oracle.directed(slot.like, x) for x in (value, bound))
            # Outside of the domain, where the oracle is not a number, nothing is approached.
            low, high, bound = (
                np.where(np.isnan(value), x, y) for x, y in ((np.inf, value), (-np.inf, value), (0, bound))
            )
            if i < len(ranges):
                ranges[i] = tuple(f(x, y) for f, x, y in zip(_WIDER, ranges[i], (low, high, bound), strict=True))
            else:
                ranges.append((low, high, bound))
    return ranges


_WIDER = (np.minimum, np.maximum, np.maximum)


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


def not_swallowed(trial: Trial, args: Arrays, results: Sequence, circumstance: str) -> Iterator[Finding]:
    """A violation for each output that is a number where the oracle's is not."""
    for slot, y, (value, _) in zip(
        trial.oracle.map("forward").results, results, trial.truth("forward", args), strict=True
    ):
        hidden = int((np.isnan(value) & ~np.isnan(bridge.to_numpy(y))).sum())
        yield Fact(slot.label, not hidden, f"is a number in {hidden} entries where the oracle's is NaN", circumstance)
