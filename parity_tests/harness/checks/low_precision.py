"""low_precision: in 16 bits, which arithmetic explains each result, and results whose errors do not look like rounding.

A worst-case bound is many times what rounding does, so that at the sizes of kernels a factor may be missing within it.
A result that is within the bound of float32 inside, rounded once, is as good as one can be. All others are compared
with runs of right code in which every operation is rounded: see `harness.statistics`; of the oracle's program or, where
a shift of the inputs changes nothing, of the program after that. What no right code would do is a suspicion, and the
verdict SUSPECT. The report says for each result which arithmetic explains it.

Where two numbers are equal, as in 16 bits some of a thousand random pairs are, the oracle's derivative is a choice, and
another right choice differs by more than rounding. Entries at which the oracle jumps are left out of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Comparison, Convention, Explanation, Fact, Finding, NotApplicable, Suspicion
from parity_tests.harness.numbers.contracts import THROUGHOUT, Arithmetic
from parity_tests.harness.oracle.arithmetics import has_constants_to_round, ladder, right_code, terms
from parity_tests.harness.oracle.kinks import jumps
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.oracle.shifts import shifted
from parity_tests.harness.statistics.scores import RUNS, Errors, scores
from parity_tests.harness.trial.trial import Trial

_MAPS = ("forward", "vjp", "jvp")


@dataclass(frozen=True, eq=False)
class _Result:
    """A result that is within its bound, at its place among those of its map, and what right code computes there.

    `oracle`: the one whose program right code runs; that of the trial, or the same after a shift. `has_choice`: whether
    the candidate was seen to choose otherwise than the oracle.
    """

    comparison: Comparison
    name: str
    place: int
    args: Arrays
    is_inside_float32: bool
    trial: Trial
    oracle: Oracle
    has_choice: bool = False

    @property
    def jumping(self) -> np.ndarray:
        """A mask of the entries at which another choice at a kink is as right as the oracle's."""
        return jumps(self.trial, self.name, self.args)[self.place] > 0

    @property
    def runs(self) -> list[np.ndarray]:
        """What right code computes if every operation is rounded; only the part that is compared."""
        of_map = right_code(self.oracle, self.name, self.args, self.trial.precision, RUNS)[self.place]
        like = self.trial.oracle.map(self.name).results[self.place].like
        return [self.trial.oracle.compared(self.name, like, x) for x in of_map]

    @property
    def shows_float32(self) -> bool:
        """True if it is explained by float32 inside, and no run of code that rounds every operation would be."""
        if not self.is_inside_float32:
            return False
        bound = self.bound(ladder(self.trial.oracle, self.trial.sample)[0])
        return not any((np.abs(run - self.comparison.oracle) <= bound).all() for run in self.runs)

    def bound(self, arithmetic: Arithmetic) -> np.ndarray:
        """The bound of its error under an arithmetic."""
        return _bounds(replace(self.trial, oracle=self.oracle), self.name, self.args, arithmetic)[self.place]


def _run(trial: Trial) -> Iterator[Finding]:
    results, raised = list[_Result](), None
    for name in _MAPS:
        args = trial.arguments(name)
        try:
            found = list(trial.compare(name, args, trial.evaluate(name, args)))
        except Refused as error:
            raised = raised if name == "jvp" else error  # of forward mode the check "jvp" reports it
            continue
        yield from (f for f in found if f.holds)  # what is wrong is left to the check of its name
        if all(f.holds and not isinstance(f, Fact) for f in found):
            results += _results(trial, name, args, found)
    if not results and raised is None:
        raise NotApplicable("all results are wrong at the sample, which the checks of these maps report")
    yield from _explained(trial, results)
    if raised is not None:
        raise raised


def _results(trial: Trial, name: str, args: Arrays, found: Sequence[Finding]) -> Iterator[_Result]:
    comparisons = [f for f in found if isinstance(f, Comparison)]
    chosen = {f.label for f in found if isinstance(f, Convention)}
    inside = _bounds(trial, name, args, ladder(trial.oracle, trial.sample)[0])
    for i, (f, bound) in enumerate(zip(comparisons, inside, strict=True)):
        yield _Result(f, name, i, args, bool((f.error <= bound).all()), trial, trial.oracle, f.label in chosen)


def _bounds(trial: Trial, name: str, args: Arrays, arithmetic: Arithmetic) -> list[np.ndarray]:
    truths = trial.oracle.ask(name, args, trial.precision.under(arithmetic))
    return [trial.oracle.compared_errors(name, t.like, t.bound, t.value) for t in truths]


def _explained(trial: Trial, results: list[_Result]) -> Iterator[Finding]:
    """For each result the arithmetic that explains it, or what does not look like rounding."""
    statable = trial.oracle.spec.arithmetic is None
    others = [r for r in results if not r.is_inside_float32]
    # Who computes one result in float32 inside computes the others so, too: then constants are not rounded either.
    shown = next((r.comparison.label for r in results if others and r.shows_float32), None)
    for result in results:
        f = result.comparison
        if result.is_inside_float32 and not f.oracle.any():
            continue  # a gradient that is 0 tells nothing of the arithmetic
        if result.is_inside_float32:
            yield Explanation(f.label, str(ladder(trial.oracle, trial.sample)[0]))
            continue
        suspicion = _suspicion(trial, result, shown)
        if suspicion is not None and not _is_right_after_a_shift(result, shown):
            yield suspicion
            continue
        rungs = ladder(trial.oracle, trial.sample)[1:-1] if statable else ()
        met = (rung for rung in rungs if rung.stored and (f.error <= result.bound(rung)).all())
        yield Explanation(f.label, str(next(met, THROUGHOUT)))


def _suspicion(trial: Trial, result: _Result, shown: str | None) -> Suspicion | None:
    """What does not look like rounding; not what a choice at a kink explains, which is looked for only then."""
    none = np.zeros(result.comparison.oracle.shape, bool)
    if result.has_choice:
        return _suspicion_elsewhere(trial, result, shown, result.jumping)
    suspicion = _suspicion_elsewhere(trial, result, shown, none)
    if suspicion is None or not (jumping := result.jumping).any():
        return suspicion
    return _suspicion_elsewhere(trial, result, shown, jumping)


def _suspicion_elsewhere(trial: Trial, result: _Result, shown: str | None, left_out: np.ndarray) -> Suspicion | None:
    f = result.comparison
    # Both with the error of the oracle's own value, which is far below the format's.
    with np.errstate(invalid="ignore"):
        error, runs = f.candidate - f.oracle, [run - f.oracle for run in result.runs]
    spacing = trial.precision.spacing(np.where(np.isfinite(f.oracle), f.oracle, 0.0))
    bound = result.bound(THROUGHOUT)
    errors = Errors.of(np.where(np.isfinite(bound) & ~left_out, error, np.nan), runs, spacing, bound)
    like = trial.oracle.map(result.name).results[result.place].like
    summands = terms(trial.oracle, result.name, result.args)[f.label]
    compared = {t.text: trial.oracle.compared(result.name, like, t.value) for t in summands}
    named = {f.label: f.oracle, **{text: x for text, x in compared.items() if x.shape == f.oracle.shape}}
    # One of the result or of an intermediate, and one of a constant, if there is any.
    common = 0 if shown else 1 + has_constants_to_round(trial.oracle, result.name, result.args)
    found = scores(errors, named, trial.precision, common)
    beyond = tuple(score for score in found if score.value > 1)
    if not beyond:
        return None
    return Suspicion(f.label, beyond, f, errors, spacing, shown)


def _is_right_after_a_shift(result: _Result, shown: str | None) -> bool:
    """Whether a result looks like that of right code that subtracts a number of each row first: `oracle.shifts`."""
    trial = result.trial
    return any(
        _suspicion(trial, replace(result, oracle=other), shown) is None
        for other in shifted(trial.oracle, trial.sample, result.name, result.args)
    )


CHECK = Check(
    "low_precision",
    "in 16 bits: a missing factor or term, a wrong entry, row, column or tile, within the bound of rounding",
    ("vjp", "jvp"),
    _run,
    large=True,
    kernel_sized=True,
    only_short=True,
    real_only="the 16-bit formats have real numbers only",
)
