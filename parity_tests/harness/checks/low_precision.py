"""low_precision: in 16 bits, which arithmetic explains each result, and results whose errors do not look like rounding.

A worst-case bound is many times what rounding does, so that at the sizes of kernels a factor may be missing within it.
A result that is within the bound of float32 inside, rounded once, is as good as one can be. All others are compared
with runs of right code in which every operation is rounded: see `harness.statistics`; of the oracle's program or, where
a shift of the inputs changes nothing, of the program after that. What no right code would do is a suspicion, and the
verdict SUSPECT. The report says for each result which arithmetic explains it.

Code that is seen to compute in float32 is not excused by code that rounds more. If all outputs and all other results of
a map are float32 inside, and some are as no code that rounds every operation would have them, then what these are
computed from is not rounded for this one either. If nearly all entries of a result are float32 inside, the errors of
the others may not lie in one direction, in each row and each column, nor be large in few rows or columns alone.

Where two numbers are equal, as in 16 bits some of a thousand random pairs are, the oracle's derivative is a choice, and
another right choice differs by more than rounding. Entries at which the oracle jumps are left out of the comparison.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Comparison, Convention, Explanation, Fact, Finding, NotApplicable, Suspicion
from parity_tests.harness.numbers.contracts import THROUGHOUT
from parity_tests.harness.oracle.arithmetics import has_constants_to_round, ladder, terms
from parity_tests.harness.oracle.kinks import jumps
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.oracle.shifts import shifted
from parity_tests.harness.statistics.scores import MARGIN_BESIDE, Errors, Score, directions, scores, strangers
from parity_tests.harness.trial.rounded_results import RoundedResult, bounds, first_that_shows, others_that_show
from parity_tests.harness.trial.trial import Trial

_MAPS = ("forward", "vjp", "jvp")
Evidence = Callable[[RoundedResult], int]


def by_right_code(check: Check) -> Check | None:
    """The check of a map by what right code computes in 16 bits, for where a bound tells nothing; None of other checks.

    Its results are evidence if each of them could be told from zeros by right code, or by float32 inside.
    """
    return replace(check, run=functools.partial(_run_of_map, name=check.name)) if check.name in _MAPS else None


def _run_of_map(trial: Trial, name: str) -> Iterator[Finding]:
    results = list[RoundedResult]()
    for each in dict.fromkeys(("forward", name)):
        args = trial.arguments(each)
        found = list(trial.compare(each, args, trial.evaluate(each, args)))
        if each == name:
            yield from found
        if all(f.holds and not isinstance(f, Fact) for f in found):
            results += _results(trial, each, args, found)
    explained = list(_explained(trial, results, (name,), _evidence))
    tells = all(f.evidence for f in explained if isinstance(f, Explanation))
    yield from explained if tells else [replace(f, evidence=0) for f in explained]


def _run(trial: Trial) -> Iterator[Finding]:
    results, raised = list[RoundedResult](), None
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


def _results(trial: Trial, name: str, args: Arrays, found: Sequence[Finding]) -> Iterator[RoundedResult]:
    comparisons = [f for f in found if isinstance(f, Comparison)]
    chosen = {f.label for f in found if isinstance(f, Convention)}
    inside = bounds(trial, name, args, ladder(trial.oracle, trial.sample)[0])
    for i, (f, bound) in enumerate(zip(comparisons, inside, strict=True)):
        has_choice = f.label in chosen
        left_out = jumps(trial, name, args)[i] > 0 if has_choice else False  # another choice is no rounding
        is_inside = bool(((f.error <= bound) | left_out).all())
        yield RoundedResult(f, name, i, args, is_inside, trial, trial.oracle, has_choice)


def _explained(
    trial: Trial, results: list[RoundedResult], of: Sequence[str] = _MAPS, evidence: Evidence = lambda result: 0
) -> Iterator[Explanation | Suspicion]:
    """For each result of these maps the arithmetic that explains it, or what does not look like rounding.

    `evidence`: how many of its entries are evidence.
    """
    statable = trial.candidate.arithmetic is None
    for result in (each for each in results if each.name in of):
        f = result.comparison
        if result.is_inside_float32 and not f.oracle.any():
            continue  # a gradient that is 0 tells nothing of the arithmetic
        if result.is_inside_float32:
            yield Explanation(f.label, str(ladder(trial.oracle, trial.sample)[0]), evidence=evidence(result))
            continue
        held = replace(
            result,
            shown=first_that_shows(result, results),
            others=others_that_show(result, results) if statable else (),
        )
        suspicion = _suspected(held)
        if suspicion is not None:
            yield suspicion
            continue
        rungs = ladder(trial.oracle, trial.sample)[1:-1] if statable else ()
        yield Explanation(f.label, str(next(filter(held.is_shown_by, rungs), THROUGHOUT)), evidence=evidence(held))


def _evidence(result: RoundedResult) -> int:
    """The number of entries, if the bound, float32 inside or right code can tell zeros from the result; else 0."""
    f = result.comparison
    if f.evidence:
        return f.evidence
    if result.is_inside_float32 and result.is_shown_by(ladder(result.trial.oracle, result.trial.sample)[0]):
        return f.oracle.size
    of_zeros = replace(result, comparison=replace(f, candidate=np.zeros_like(f.candidate)))
    return f.oracle.size if _suspected(of_zeros) is not None else 0


def _suspected(result: RoundedResult) -> Suspicion | None:
    """Return the suspicion about a result; None if its error looks like rounding, after a shift of each row or not."""
    suspicion = _suspicion(result)
    return None if suspicion is None or _is_right_after_a_shift(result) else suspicion


def _suspicion(result: RoundedResult) -> Suspicion | None:
    """Return a suspicion that no choice at a kink explains, or None; kinks are looked for only if there is one."""
    none = np.zeros(result.comparison.oracle.shape, bool)
    if result.has_choice:
        return _suspicion_elsewhere(result, result.jumping)
    suspicion = _suspicion_elsewhere(result, none)
    if suspicion is None or not (jumping := result.jumping).any():
        return suspicion
    return _suspicion_elsewhere(result, jumping)


def _suspicion_elsewhere(result: RoundedResult, left_out: np.ndarray) -> Suspicion | None:
    f, trial = result.comparison, result.trial
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
    common = 0 if result.shown else 1 + has_constants_to_round(trial.oracle, result.name, result.args)
    found = scores(errors, named, trial.precision, common)
    if result.others and not result.is_mostly_inside_float32:
        known = np.isfinite(result.bound(ladder(trial.oracle, trial.sample)[0])) & ~left_out
        runs = [run - f.oracle for run in result.runs_beside_others]
        errors = Errors.of(np.where(known, error, np.nan), runs, spacing)
        found += scores(errors, named, trial.precision, 0, MARGIN_BESIDE)
    if trial.candidate.arithmetic is None and result.is_nearly_inside_float32:
        found += _of_the_few_beyond(result, named, left_out)
    beyond = tuple(score for score in sorted(found, key=lambda score: -score.value) if score.value > 1)
    if not beyond:
        return None
    return Suspicion(f.label, beyond, f, errors, spacing, result.shown, result.others)


def _of_the_few_beyond(result: RoundedResult, terms: Mapping[str, np.ndarray], left_out: np.ndarray) -> list[Score]:
    """Scores of the entries that float32 inside does not explain, of a result in which it explains the others."""
    f, precision = result.comparison, result.trial.precision
    masks = [result.beyond_float32(x) & ~left_out for x in (f.candidate, *result.runs)]
    size = np.max([np.abs(x) for x in terms.values()], axis=0)
    lines = strangers(np.where(left_out, 0.0, f.error), size, masks[0], masks[1:], precision)
    errors = [np.where(left_out, 0.0, f.candidate - right) for right in result.rounded_once]
    of_each = zip(*(directions(error, f.oracle, terms) for error in errors), strict=True)
    return [*(min(scores, key=lambda score: score.value) for scores in of_each), *lines]


def _is_right_after_a_shift(result: RoundedResult) -> bool:
    """Whether the error of a result looks like rounding after a shift: see `oracle.shifts`."""
    trial = result.trial
    return any(
        _suspicion(replace(result, oracle=other)) is None
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
    real_only="the 16-bit dtypes have real numbers only",
)
