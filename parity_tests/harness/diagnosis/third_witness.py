"""The third witness: Taylor remainders of both sides' own functions decide whether candidate or oracle is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.maps import BASES, Slot
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.complex_parts import by_parts
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.oracle.taylor import TaylorTest, taylor_test
from parity_tests.harness.trial.trial import Trial

_SHORTEST = 2.0**-10  # of the longest: smaller entries of a direction are left out, so that x + h p stays exact


def arbitrate(name: str, trial: Trial) -> str | None:
    """Return which side is right, by Taylor remainders of both sides' own functions in float64; None if unknown."""
    if name not in BASES:
        return None
    if trial.oracle.is_surrogate(name):
        return "OpSpec.surrogate is binding: it is a choice and no derivative, so that no third witness can tell"
    exact = trial.widened()
    if (absent := trial.absent_in(exact.precision)) is not None:
        return f"no Taylor rate, since {absent}"
    try:
        return _verdict(name, exact, trial.precision.name)
    except Exception as error:
        return f"no Taylor rate in {exact.precision.name}: {type(error).__name__}: {first_line(error)}"


def _verdict(name: str, exact: Trial, format_name: str) -> str:
    double = exact.precision.name
    given = exact.arguments(name)
    args = [*given[: len(exact.primals)], *_held(exact, exact.oracle.map(name).arguments[len(exact.primals) :], given)]
    off = _held(exact, exact.oracle.map(name).results, _differences(exact, name, args))
    if not all(np.isfinite(x).all() for x in off):
        return f"in {double} the candidate has a result that is not finite where the oracle's is"
    differ = any(x.any() for x in off)
    if not differ and exact.oracle.spec.detached and any(x.any() for x in _differences(exact, name, given)):
        names = " and ".join(exact.oracle.spec.detached)
        return f"detached by the reference: nothing passes through {names}, which no difference of values can tell"
    weights = _scaled(off) if differ else _random(exact, name)
    ours, theirs = (_tested(exact, name, args, weights, side) for side in ("oracle", "candidate"))
    if ours is None or theirs is None:
        return f"no Taylor rate in {double}: the function is not finite, or has no error bound"
    rates = f"Taylor rate in {double}: oracle {_rate(ours)}, candidate {_rate(theirs)}"
    if ours.right and not theirs.right:
        return f"{rates} -> the oracle is right"
    if not ours.right:
        return f"{rates} -> {'the oracle is wrong' if theirs.right else 'neither is right'}"
    if not differ and format_name == double:
        return f"{rates} -> called once more, the candidate agrees with the oracle"
    if not differ:
        return f"{rates} -> both formulas are right in {double}; the candidate's {format_name} is not"
    base = BASES[name]
    if any(x.any() for x in _differences(exact, base, args[: exact.oracle.map(name).base])):
        return f"{rates} -> each is the derivative of its own function: compare the functions first (see {base})"
    return f"{rates} -> the two derivatives differ by less than values in {double} can tell; {base} agrees"


def _held(exact: Trial, slots: Sequence[Slot], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The last of these arrays, one for each slot, without what would move a detached input."""
    arrays = arrays[len(arrays) - len(slots) :]
    detached = exact.oracle.spec.detached
    return [np.zeros_like(x) if slot.like in detached else x for slot, x in zip(slots, arrays, strict=True)]


def _rate(test: TaylorTest) -> str:
    """The rate; of a wrong derivative whose rate does not show it, also by how much it is off."""
    if test.right or test.shows_in_rate:
        return f"{test.rate:.2f}"
    return f"{test.rate:.2f} (its derivative is off by {test.relative_error:.1g} of its size)"


def _differences(exact: Trial, name: str, args: Arrays) -> list[np.ndarray]:
    """Candidate minus oracle, of every result; 0 where rounding explains it."""
    differences = []
    for truth, y in zip(exact.truth(name, args), _candidate(exact, name, args), strict=True):
        value, oracle, bound = np.zeros_like(truth.value) if y is None else y, truth.value, truth.bound
        value, oracle, bound = (exact.oracle.compared(name, truth.like, x) for x in (value, oracle, bound))
        with np.errstate(invalid="ignore"):
            same = (np.abs(value - oracle) <= bound) | (value == oracle) | (np.isnan(value) & np.isnan(oracle))
            differences.append(np.where(same, 0.0, value - oracle))
    return differences


def _scaled(differences: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Weights that bring the whole difference to light: itself, so that no part of it cancels another."""
    largest = max(float(np.abs(x).max(initial=0)) for x in differences)
    return [by_parts(lambda a: np.where(np.abs(a) < _SHORTEST, 0.0, a), x / largest) for x in differences]


def _random(exact: Trial, name: str) -> list[np.ndarray]:
    shapes = exact.oracle.shapes(tuple(x.shape for x in exact.primals))
    return [
        exact.oracle.direction(exact.sample, f"taylor {slot.label}", slot.like, shapes)
        for slot in exact.oracle.map(name).results
    ]


def _candidate(exact: Trial, name: str, args: Arrays) -> list[np.ndarray | None]:
    return [None if y is None else conversion.to_numpy(y) for y in exact.evaluate(name, args)]


def _tested(exact: Trial, name: str, args: list[np.ndarray], weights: list[np.ndarray], side: str) -> TaylorTest | None:
    def evaluate(which: str, point: list[np.ndarray]) -> Arrays:
        if side == "oracle":
            return [truth.value for truth in exact.truth(which, point)]
        return _candidate(exact, which, point)

    return taylor_test(exact.oracle, name, evaluate, args, weights)
