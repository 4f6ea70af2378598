"""A difference between formulas, shown by numbers: arguments at which it is beyond the bounds are looked for.

Two formulas may differ in hundreds of digits and agree within the rounding of a sample. Each argument in turn is made
larger and smaller, as far as that makes the difference larger beside its bound. The difference is that of the programs,
the verdict that of the candidate's own results there, by the bounds of any other sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from parity_tests.harness.findings import Finding
from parity_tests.harness.oracle.cost import entries_of
from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.proof.run import Run, context
from parity_tests.harness.trial.trial import Trial

_CIRCUMSTANCE = "at inputs made to show a difference of the formulas"
_BITS = 256  # differences of a part in 10^40 are seen in half of them
# A direction may vanish, and with it all that is right. An input keeps away from zero, where a formula may stop.
_OF_DIRECTIONS = (0.0, 2.0**-8, 2.0**8)
_OF_INPUTS = (2.0**-8, 2.0**-2, 2.0**2, 2.0**8)
_ROUNDS = 3  # through all arguments, as long as one of them helps
_ENTRIES = 1e5  # of all arrays of all tries together, seconds in so many bits


def shown(trial: Trial, name: str, args: Sequence[np.ndarray], programs: Sequence[ClosedJaxpr]) -> Iterator[Finding]:
    """Yield what the candidate has wrong at the first arguments that show a difference of two programs of a map.

    `programs`: the oracle's and the candidate's, of the map of this name; `args`: where they differ.
    """
    best, ratio = list(args), _ratio(trial, name, args, programs)
    tries = _ENTRIES // max(1, sum(entries_of(program.jaxpr) for program in programs))
    for _ in range(_ROUNDS):
        before = ratio
        for i, factors in _that_vary(trial, args):
            start = best[i]
            for factor in factors:
                at = [*best[:i], trial.precision.rounded(start * factor), *best[i + 1 :]]
                tries -= 1
                found = _ratio(trial, name, at, programs) if tries >= 0 and np.isfinite(at[i]).all() else 0.0
                if found <= ratio:
                    continue
                best, ratio = at, found
                wrong = _wrong(trial, name, at) if ratio > 1 else []
                if wrong:
                    yield from wrong
                    return
        if ratio == before:
            return


def _that_vary(trial: Trial, args: Sequence[np.ndarray]) -> Iterator[tuple[int, Sequence[float]]]:
    """Yield the positions of the arguments of which multiples are in the domain, and by which numbers.

    Of inputs that are given nobody has said which others belong to the operator.
    """
    domains = trial.sample.domains
    for i in range(len(args)):
        if i >= len(domains):
            yield i, _OF_DIRECTIONS
        elif trial.sample.fixed is None and domains[i].is_real:
            yield i, _OF_INPUTS


def _ratio(trial: Trial, name: str, args: Sequence[np.ndarray], programs: Sequence[ClosedJaxpr]) -> float:
    """The largest difference of two programs beside its bound; 0 where there is no number."""
    mp = context(_BITS)
    try:
        runs = [Run(mp, program, args) for program in programs]
    except Unmodelled:
        return 0.0
    truths = trial.truth(name, args)
    return max(
        (_beside(truth.bound, *ys) for truth, *ys in zip(truths, *(run.results for run in runs), strict=True)),
        default=0.0,
    )


def _beside(bound: np.ndarray, *results: Any) -> float:
    with np.errstate(all="ignore"):
        differences = np.asarray(np.frompyfunc(lambda x, y: float(abs(x - y)), 2, 1)(*results), float)
        ratios = np.where(differences == 0, 0.0, differences / bound)
    return float(np.max(np.nan_to_num(ratios, nan=0.0, posinf=np.inf), initial=0.0))


def _wrong(trial: Trial, name: str, args: Sequence[np.ndarray]) -> list[Finding]:
    return [f for f in trial.compare(name, args, trial.evaluate(name, args), _CIRCUMSTANCE) if not f.holds]
