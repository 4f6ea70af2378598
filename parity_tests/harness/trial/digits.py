"""Digits that a result has lost and that the problem does not force anybody to lose.

The rounding bound is that of the oracle's formula: where that cancels, a candidate that cancels, too, is excused. What
the problem itself forces is known by extended precision (`harness.extended`):

    E_problem = Σ |f(x with one rounding of x_i) - f(x)| + u |f(x)|,    to first order u (Σ |x_i| |∂f/∂x_i| + |f|)

A result has lost digits if its error is larger than 8 E_problem + (2 u + 8 u_acc) |f| + 8 tiny. The first term allows
several roundings of the inputs and of the result, of which a stable formula has a few, and makes three bits the least
that is found. The second is what `harness.rounding` allows an elementary function. What underflows, it may lose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jax.extend import core

from parity_tests.harness.extended.evaluation import missing, work
from parity_tests.harness.extended.problem import Problem
from parity_tests.harness.findings import AS_JAX, Comparison, LostDigits
from parity_tests.harness.language.values import evaluate, evaluate_rounded
from parity_tests.harness.numbers.digits import apart
from parity_tests.harness.numbers.fingerprint import fingerprint
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.primitives.bound.base import relative
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.trial.trial import Trial

TIMES = 8  # of E_problem
_ROUNDINGS_OF_FLOAT64 = 16  # how much the float64 values may be off where the bound counts the format's roundings
_NOTHING: Mapping[str, float] = MappingProxyType({})
_STEP = 2.0**-26  # relative, of a difference in float64, for a slope to half of its digits
MOST_EFFORT = 2**16  # numbers that are computed to know what a problem forces: a quarter of a second or so


@dataclass(frozen=True, eq=False)
class Loss:
    """A result that has lost digits at some entries.

    Attributes:
        comparison: the result against the exact one; its bound is what is allowed, infinite where nothing is known.
        place: the index of the entry that has lost most.
        lost, forced: the number of bits that it has lost there, and that the problem forces to be lost.
        of: the number of bits that the format has.
    """

    comparison: Comparison
    place: tuple[int, ...]
    lost: int
    forced: int
    of: int

    @property
    def excess(self) -> float:
        """The bits that are lost besides what the problem forces; infinite if all are lost: it cannot be worse."""
        return math.inf if self.lost == self.of else self.lost - self.forced

    def finding(self, trial: Trial) -> LostDigits:
        """The same as a finding, with what the oracle's formula loses there; `trial`: the one that it was found on."""
        f, place = self.comparison, self.place
        amount = f"all {self.of} bits" if self.lost >= self.of else f"{self.lost} of {self.of} bits"
        at = _inputs_at(trial, f, place) or (f"{place}" if place else "")
        got, right = apart(f.candidate[place], f.oracle[place], sign="")
        text = (
            f"loses {amount}{f' at {at}' if at else ''}: {got} where {right} is right; the problem forces {self.forced}"
        )
        by_formula = _by_formula(trial, f)
        if by_formula is not None:
            lost = _bits(by_formula[place] - f.oracle[place], f.oracle[place], trial.precision)
            text += AS_JAX if lost >= self.lost - 1 else f"; JAX's formula loses {lost}"
        return LostDigits(f.label, text, f.circumstance)


def why_not(trial: Trial, names: Sequence[str]) -> str | None:
    """Why no lost digits can be looked for in these maps; None if they can be."""
    for name in names:
        program = trial.oracle.traced(name, trial.arguments(name), by_autodiff=False).closed
        primitive = missing(program)
        if primitive is not None:
            return f"the oracle's {name} cannot be evaluated in extended precision: {NoRule(primitive, 'exact')}"
    if effort(trial, names) > MOST_EFFORT:
        return "the oracle's programs are too large to be evaluated in extended precision at this sample"
    return None


def effort(trial: Trial, names: Sequence[str]) -> int:
    """How many numbers are computed to know what the problem of each of these maps forces at one place."""
    total = 0
    for name in names:
        args = trial.arguments(name)
        total += sum(x.size for x in args) * work(trial.oracle.traced(name, args, by_autodiff=False).closed)
    return total


def losses(
    trial: Trial, name: str, args: Arrays, comparisons: Sequence[Comparison], known: Mapping[str, float] = _NOTHING
) -> Iterator[Loss]:
    """The results of a map that have lost digits at these arguments.

    `comparisons`: of all its results, within bounds. `known`: the bits that a result, by its label, has lost elsewhere
    besides what the problem forces there; only losses of more bits are looked for.

    Where the exact result and the oracle's float64 are further apart than float64 explains, as where an intermediate
    overflows in float64, they are different functions, and nothing is said. An infinite bound, as of a square root of
    what has underflowed, says that the formula may lose everything in the format.
    """
    precision, present = trial.precision, [x for x in args if x is not None]
    room = errors_of_float64(trial, name, args, comparisons)
    if not any(_suspicious(f, room[f.label], known.get(f.label), precision).any() for f in comparisons):
        return
    program, zero = trial.oracle.traced(name, args, by_autodiff=False)
    by_label = {f.label: f for f in comparisons}
    labels = [slot.label for slot, absent in zip(trial.oracle.map(name).results, zero, strict=True) if not absent]
    if not all(label in by_label for label in labels):
        return
    problem = _problem(trial, name, args, program)
    errors = problem.errors([by_label[label].candidate for label in labels])
    judged = [
        is_same(exact, by_label[label].oracle, room[label]) & _is_beyond(error, exact, known.get(label), precision)
        for label, exact, error in zip(labels, problem.values, errors, strict=True)
    ]

    def lost_digits(forced: list[np.ndarray]) -> list[np.ndarray]:
        """Where each result has lost digits, if this is what the problem forces."""
        every = zip(judged, errors, forced, problem.values, strict=True)
        return [j & (error > allowed_by(least, exact, precision)) for j, error, least, exact in every]

    def excused(forced: list[np.ndarray]) -> bool:
        return not any(lost.any() for lost in lost_digits(forced))

    if not any(j.any() for j in judged) or excused(_forced_in_float64(program, present, room, labels, precision)):
        return
    found = problem.forced(excused)
    lost_places = lost_digits(found)
    for label, exact, error, forced, j, lost in zip(
        labels, problem.values, errors, found, judged, lost_places, strict=True
    ):
        if lost.any():
            allowed = allowed_by(forced, exact, precision)
            f = by_label[label]
            shown = Comparison(label, f.candidate, exact, np.where(j, allowed, np.inf), f.circumstance, (name, args))
            with np.errstate(divide="ignore"):  # nothing may be forced, as where a guard leaves only a constant
                excess = np.divide(error, forced, out=np.zeros_like(error), where=lost)
            yield _loss(shown, excess, forced, precision)


def _problem(trial: Trial, name: str, args: Arrays, program: core.ClosedJaxpr) -> Problem:
    """The problem of a map at these arguments, which all candidates share."""
    kept, key = trial.oracle.kept, ("problem", name, trial.precision.name, *map(fingerprint, args))
    if key not in kept:
        kept[key] = Problem.of(program, [x for x in args if x is not None], trial.precision)
    return kept[key]


def _forced_in_float64(
    program: core.ClosedJaxpr,
    args: Sequence[np.ndarray],
    room: Mapping[str, np.ndarray],
    labels: Sequence[str],
    precision: Precision,
) -> list[np.ndarray]:
    """Return the least error that the problem forces, as far as float64 can tell, which takes a hundredth of the time.

    A difference of two results counts as far as the errors of both do not explain it.
    """
    step = max(precision.u, _STEP)
    values = evaluate(program, *args)
    total = [precision.u * np.maximum(np.abs(y) - room[label], 0.0) for label, y in zip(labels, values, strict=True)]
    for number, x in enumerate(args):
        for place in np.argwhere(np.isfinite(x) & (x != 0)) if x.dtype == np.float64 else ():
            moved = x.copy()
            moved[tuple(place)] *= 1 + step
            others = evaluate(program, *args[:number], moved, *args[number + 1 :])
            for i, label in enumerate(labels):
                with np.errstate(invalid="ignore"):
                    apart = np.nan_to_num(np.abs(others[i] - values[i]) - 2 * room[label], nan=0.0, posinf=0.0)
                total[i] = total[i] + precision.u / step * np.maximum(apart, 0.0)
    return total


def allowed_by(forced: np.ndarray, exact: np.ndarray, precision: Precision) -> np.ndarray:
    """The error of a result that has lost no digits but those that the problem forces to be lost."""
    return TIMES * forced + _own(exact, precision)


def _own(exact: np.ndarray, precision: Precision) -> np.ndarray:
    """Return the error that a result may have besides the one that the problem forces."""
    return relative(precision) * np.abs(exact) + TIMES * precision.tiny


def _at_least(exact: np.ndarray, known: float | None, precision: Precision) -> np.ndarray:
    """Return the error that a result may have at least, before it is known what the problem forces; see `losses`."""
    allowed = TIMES * precision.u * np.abs(exact) + _own(exact, precision)
    if known is None:
        return allowed
    if math.isinf(known):
        return np.full_like(allowed, np.inf)
    return np.maximum(allowed, precision.u * np.abs(exact) * 2.0 ** (known + 1))


def _is_beyond(error: np.ndarray, exact: np.ndarray, known: float | None, precision: Precision) -> np.ndarray:
    """Where an error is larger than what is allowed at least, and the exact result is not beyond the format."""
    inside = np.abs(exact) + _at_least(exact, None, precision) <= precision.largest
    return (error > _at_least(exact, known, precision)) & inside


def _suspicious(f: Comparison, room: np.ndarray, known: float | None, precision: Precision) -> np.ndarray:
    """Where a result within its bound may have lost digits, as far as float64 can tell."""
    allowed = _at_least(f.oracle, known, precision)
    return np.isfinite(room) & (f.bound > allowed) & (f.error + room > allowed)


def errors_of_float64(
    trial: Trial, name: str, args: Arrays, comparisons: Sequence[Comparison]
) -> dict[str, np.ndarray]:
    """How far the oracle's float64 may be off, by label: the bound is proportional to the roundoff.

    Where the format's bound is infinite, the analysis is made for float64.
    """
    ratio = _ROUNDINGS_OF_FLOAT64 * FLOAT64.u / trial.precision.u
    room = {f.label: ratio * f.bound + FLOAT64.tiny for f in comparisons}
    unknown = any((np.isinf(f.bound) & (f.error > 0)).any() for f in comparisons)
    if unknown and trial.precision is not FLOAT64:
        for truth in trial.oracle.ask(name, args, FLOAT64):
            if truth.label in room:
                bound = room[truth.label]
                room[truth.label] = np.where(np.isinf(bound), truth.bound + FLOAT64.tiny, bound)
    return room


def is_same(exact: np.ndarray, oracle: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Where the oracle's float64 is the exact result but for its rounding."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(room) & (np.abs(exact - oracle) <= room)


def _loss(f: Comparison, excess: np.ndarray, forced: np.ndarray, precision: Precision) -> Loss:
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
    lost, least = (_bits(x, f.oracle[place], precision) for x in (f.error[place], forced[place]))
    return Loss(f, place, lost, least, _bits(np.inf, 1.0, precision))


def _bits(error: float, exact: float, precision: Precision) -> int:
    """The number of bits that are lost by an error; all of them if it is as large as the result."""
    every, size = round(-math.log2(precision.u)), abs(exact)
    if not abs(error) < size:
        return every
    return max(0, math.floor(math.log2(max(abs(error) / size, precision.u) / precision.u)))


def _inputs_at(trial: Trial, f: Comparison, place: tuple[int, ...]) -> str:
    """The inputs at an entry of a result: "x = -17, y = 2"."""
    assert f.call is not None
    pairs = zip(trial.oracle.inputs, f.call[1], strict=False)
    return ", ".join(f"{name} = {x[place]:.6g}" for name, x in pairs if x is not None and x.shape == f.oracle.shape)


def _by_formula(trial: Trial, f: Comparison) -> np.ndarray | None:
    """A result of the oracle's formula with every operation rounded to the format; None if it has loops or branches."""
    assert f.call is not None
    name, args = f.call
    program, zero = trial.oracle.traced(name, args, by_autodiff=False)
    slots = zip(trial.oracle.map(name).results, zero, strict=True)
    present = [slot.label for slot, absent in slots if not absent]
    results = evaluate_rounded(program, [x for x in args if x is not None], trial.precision)
    return None if results is None else results[present.index(f.label)]
