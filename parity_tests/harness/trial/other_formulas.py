"""Errors beyond the bound that another right formula explains: the bound is that of the oracle's formula.

A right formula that cancels elsewhere than the oracle's loses other digits. Of a wrong entry three things excuse it:

1. Its error is within 8 E_problem + (2 u + 8 u_acc) |f|, as in `trial.digits`: the result is the exact one of inputs
   that have been rounded a few times, and no method can be asked for more.
2. Its error goes with the roundoff. Let C_F be the largest error of the same candidate in the format F at several
   arguments nearby, in units of its roundoff. An error that rounding makes is as large in double precision as single
   precision predicts, at most `ALIKE` u C_single, and then in each format as large as double precision predicts. A
   mistake has the same size in both, so that its C_double is 2^29 times its C_single; and one in a narrow format alone
   is not in C_double.
3. The oracle's own number is not the exact one there, as where a square underflows in float64: it cannot judge.

What has no digit left in either format, such as log(1 + x) at 1e-20, may as well be a wrong 0, and is not excused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.extended.problem import Problem
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.maps import Slot
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.trial.digits import allowed_by, errors_of_float64, is_same
from parity_tests.harness.trial.trial import Trial

# How far two formats may be apart in the roundings that are lost in each, which are random. The roundings of double and
# single precision differ by 2^29, so that an error of any other kind is not that near in both.
ALIKE = 16
_NEARBY = 8  # arguments nearby, at one of which the error is hardly small by chance
# Relative: enough for a difference of large numbers to be rounded in another way, of which the largest error is known
# by it; and so little that an exponential of the largest numbers tried, 88, changes by a third.
_STEP = 2.0**-8


def explained_by_another(trial: Trial, name: str, args: Arrays, findings: Sequence[Finding]) -> list[Finding]:
    """The findings on a map, in which what another right formula explains is within its bound."""
    wrong = {f.label: f for f in findings if isinstance(f, Comparison) and not f.holds}
    program, zero = trial.oracle.traced(name, args, by_autodiff=False)
    labels = [slot.label for slot, absent in zip(trial.oracle.map(name).results, zero, strict=True) if not absent]
    if not wrong or not wrong.keys() <= set(labels):
        return list(findings)
    of_all = {f.label: f for f in findings if isinstance(f, Comparison)}
    problem = Problem.of(program, [x for x in args if x is not None], trial.precision)
    room = errors_of_float64(trial, name, args, list(wrong.values()))
    exact = dict(zip(labels, problem.values, strict=True))
    # A result of which a part is compared is left to the bound: the exact one is all of it.
    whole = {slot.label for slot in trial.oracle.map(name).results if _is_compared_whole(trial, name, slot, exact)}
    judged = {label: f.wrong & is_same(exact[label], f.oracle, room[label]) for label, f in wrong.items()}
    numbers = [of_all[label].candidate if label in of_all else y for label, y in exact.items()]
    errors = dict(zip(labels, problem.errors(numbers), strict=True))

    def allowed(forced: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        pairs = zip(labels, forced, strict=True)
        return {label: allowed_by(least, exact[label], trial.precision) for label, least in pairs}

    def excused(forced: Sequence[np.ndarray]) -> bool:
        bounds = allowed(forced)
        return not any((judged[label] & (errors[label] > bounds[label])).any() for label in wrong)

    bounds = allowed(problem.forced(excused))
    if any((judged[label] & (errors[label] > bounds[label])).any() for label in wrong):
        by_roundoff = _predicted(trial, name, args)
        bounds = {label: np.maximum(bound, by_roundoff.get(label, 0.0)) for label, bound in bounds.items()}
    compared = {}
    for label, f in wrong.items():
        right = judged[label] & (errors[label] <= bounds[label])
        comparable = np.isfinite(exact[label]) & np.isfinite(f.oracle) if label in whole else np.False_
        unknown = f.wrong & comparable & ~judged[label]
        # The exact result has been rounded to float64 by now, which the error did not see.
        bound = np.maximum(bounds[label], np.abs(f.candidate - exact[label]), where=right, out=f.bound.copy())
        oracle = np.where(right, exact[label], f.oracle)
        compared[id(f)] = replace(f, oracle=oracle, bound=np.where(unknown, np.inf, bound))
    return [compared.get(id(f), f) for f in findings]


def _is_compared_whole(trial: Trial, name: str, slot: Slot, exact: Mapping[str, np.ndarray]) -> bool:
    if name == "forward" or slot.label not in exact:
        return name == "forward"
    return np.array_equal(trial.oracle.directed(slot.like, exact[slot.label]), exact[slot.label], equal_nan=True)


def _predicted(trial: Trial, name: str, args: Arrays) -> dict[str, np.ndarray]:
    """How large an error that goes with the roundoff may be in the trial's format, by the label of the result.

    Nothing is said of a candidate that is not judged in double and in single precision, or refuses one of them.
    """
    double, single = trial.precision.double, trial.precision.single
    if not all(map(trial.exists_in, (double, single))):
        return {}
    most: dict[tuple[str, str], np.ndarray] = {}
    program = trial.oracle.traced(name, args, by_autodiff=False).closed
    for precision in (double, single):
        for other in nearby(trial, args, precision):
            problem = Problem.of(program, [x for x in other if x is not None], double)
            errors = _errors_in(trial.in_format(precision), name, other, problem)
            if errors is None:
                return {}
            for label, error in errors.items():
                most[label, precision.name] = np.fmax(most.get((label, precision.name), 0.0), error / precision.u)
    predicted = {}
    for label in dict.fromkeys(label for label, _ in most):
        in_double, in_single = most[label, double.name], most[label, single.name]
        goes_with_it = np.isfinite(in_double) & (in_double <= ALIKE * in_single)
        by_the_other = in_single if trial.precision is double else in_double
        found = ALIKE * trial.precision.u * by_the_other
        predicted[label] = np.where(goes_with_it & np.isfinite(found), found, 0.0)
    return predicted


def nearby(trial: Trial, args: Arrays, precision: Precision) -> list[Arrays]:
    """Arguments near these that are exact in a format, and have all of its digits.

    Of arguments that have fewer, as those of single precision have for double precision, many a sum is exact.
    """
    rng = np.random.default_rng([trial.sample.seed, len(args)])
    return [
        [None if x is None else precision.rounded(x * (1 + _STEP * rng.uniform(-1, 1, x.shape))) for x in args]
        for _ in range(_NEARBY)
    ]


def _errors_in(there: Trial, name: str, args: Arrays, problem: Problem) -> dict[str, np.ndarray] | None:
    """The candidate's errors in a format, by the label of the result; None if it has no such results."""
    try:
        results = there.evaluate(name, args)
    except Exception:  # the row of that format says so
        return None
    zero, slots = there.oracle.traced(name, args, by_autodiff=False).zero, there.oracle.map(name).results
    pairs = [(slot.label, y) for slot, y, absent in zip(slots, results, zero, strict=True) if not absent]
    every = zip(pairs, problem.values, strict=True)
    numbers = [np.zeros_like(value) if y is None else conversion.to_numpy(y) for (_, y), value in every]
    if any(x.shape != value.shape for x, value in zip(numbers, problem.values, strict=True)):
        return None
    return dict(zip((label for label, _ in pairs), problem.errors(numbers), strict=True))
