"""Who is right, the candidate or the oracle? A third witness: the functions themselves."""

from __future__ import annotations

from dataclasses import replace

from parity_tests.harness import bridge
from parity_tests.harness.maps import BASES
from parity_tests.harness.taylor import RIGHT, taylor_rate
from parity_tests.harness.trial import Trial


def blame(name: str, trial: Trial) -> str | None:
    """Who is right, by the Taylor remainders of both sides' own functions in float64; None where that says nothing."""
    if name not in BASES:
        return None
    double = trial.precision.double
    try:
        ours, theirs = (_rate(trial, name, side) for side in ("oracle", "candidate"))
    except Exception as error:
        first_line = next(iter(str(error).strip().splitlines()), "")
        return f"no Taylor rate in {double.name}: {type(error).__name__}: {first_line}"
    rates = f"Taylor rate in {double.name}: oracle {ours:.2f}, candidate {theirs:.2f}"
    if ours > RIGHT and theirs <= RIGHT:
        return f"{rates} -> the oracle is right"
    if ours > RIGHT and trial.precision is not double:
        return f"{rates} -> both formulas are right in {double.name}; the candidate's {trial.precision.name} is not"
    if ours > RIGHT:
        return f"{rates} -> each is the derivative of its own function: compare the functions first (see {BASES[name]})"
    return f"{rates} -> the oracle is wrong" if theirs > RIGHT else f"{rates} -> neither is right"


def _rate(trial: Trial, name: str, side: str) -> float:
    exact = replace(trial, precision=trial.precision.double)
    args, results = exact.arguments(name), trial.oracle.map(name).results
    shapes = trial.oracle.shapes(tuple(x.shape for x in exact.primals))
    weights = [
        trial.oracle.directed(slot.like, trial.sample.draw(f"taylor {slot.label}", shapes[slot.like]))
        for slot in results
    ]

    def evaluate(which, point):
        if side == "oracle":
            return [value for value, _ in exact.truth(which, point)]
        return [None if y is None else bridge.to_numpy(y) for y in exact.evaluate(which, point)]

    return taylor_rate(trial.oracle, name, evaluate, args, weights)
