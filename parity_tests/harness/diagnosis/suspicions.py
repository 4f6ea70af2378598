"""The description of a suspicion: what in an error does not look like rounding, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.diagnosis.failures import described
from parity_tests.harness.diagnosis.heat_map import heat_map
from parity_tests.harness.exceptions.explaining import explain, unexplained
from parity_tests.harness.findings import Suspicion
from parity_tests.harness.report.results import Failure, Row, WrongResult
from parity_tests.harness.statistics.scores import MARGIN, SIGN, Score
from parity_tests.harness.trial.trial import Trial

# Errors in units of the last place of the right value: the bins of a histogram end here.
_EDGES = (-64.0, -16.0, -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0)
_EXPLAINED = 0.5  # of an error's square: a term that explains as much names the cause
TO_DO = (
    "judge the candidate in float32, if it exists there; else look at these entries and terms, or state what the "
    "candidate rounds: crosscheck(..., arithmetic=Arithmetic(...)), or in a case file arithmetic = Arithmetic(...)"
)


def suspected(row: Row, trial: Trial, suspicions: Sequence[Suspicion], replay: Callable[[Row], str]) -> Failure:
    """Return the failure of a row that is SUSPECT, with its suspicions on a trial."""
    results = [explain(f"the suspicion about {s.label}", lambda s=s: _wrong_result(s)) for s in suspicions]
    again = explain("how to replay it", lambda: replay(row))
    failure = described(row, trial.sample, [], trial.oracle.spec)
    plain = [WrongResult(s.label, "its error does not look like rounding") for s in suspicions]
    wrong = tuple(result.value or other for result, other in zip(results, plain, strict=True))
    unsaid = unexplained(*results, again)
    return replace(failure, wrong=wrong, suspect=TO_DO, replay=again.value, unexplained=unsaid)


def _wrong_result(suspicion: Suspicion) -> WrongResult:
    first, f = _most_telling(suspicion.scores), suspicion.comparison
    index = _worst(suspicion, first)
    others = [f"{_in_words(s, f.label)} ({s.value:.2g} times)" for s in suspicion.scores if s is not first][:2]
    text = f"{_in_words(first, f.label)}, {first.value:.2g} times what right code reaches"
    text += f"; also {', '.join(others)}" if others else ""
    return WrongResult(
        label=f.label,
        pattern=f"its error does not look like rounding: {text}",
        circumstance=_compared_with(suspicion),
        index=index,
        candidate=float(f.candidate[index]),
        oracle=float(f.oracle[index]),
        error=float(f.error[index]),
        allowed=float(f.bound[index]),
        heat=heat_map(np.abs(suspicion.errors.candidate) / _reached(suspicion)),
        histogram=_histogram(suspicion),
    )


def _compared_with(suspicion: Suspicion) -> str:
    """The results that are better, by name."""
    if suspicion.others:
        are = "is" if len(suspicion.others) == 1 else "are"
        return f"it rounds more than {' and '.join(suspicion.others)}, which {are} float32 inside"
    return f"{suspicion.shown} is computed in float32" if suspicion.shown else ""


def _most_telling(scores: Sequence[Score]) -> Score:
    """The term that explains most of the error, if one does; else the largest score."""
    best = max(scores, key=lambda score: score.share)
    return best if best.share > _EXPLAINED else scores[0]


def _in_words(score: Score, label: str) -> str:
    if score.statistic == "a projection":
        if score.term == SIGN:
            return "it has one sign"
        return f"it has {score.factor:+.3g} times {score.term} in it"
    if score.statistic == "a direction":
        of = "have one sign" if score.term == SIGN else f"lie in the direction of {score.term}"
        return f"nearly all entries are float32 inside, and the errors of the others {of}"
    if score.statistic == "a pattern":
        return "it has a pattern of rows and columns, as of a term that is missing"
    if score.statistic == "every entry":
        return "it is too large in all entries together"
    where = f" {score.index}" if score.index is not None else ""
    at = f"the tile of 16 x 16 at{where}" if score.statistic == "a tile" else f"{score.statistic[2:]}{where}"
    return f"it is too large in {at}"


def _worst(suspicion: Suspicion, score: Score) -> tuple[int, ...]:
    """The index of the entry whose error is the largest in units of its size."""
    if score.statistic == "an entry" and score.index is not None:
        return score.index
    shape = suspicion.comparison.oracle.shape
    place = int(np.abs(suspicion.errors.candidate).argmax())
    return tuple(int(i) for i in np.unravel_index(place, shape))


def _reached(suspicion: Suspicion) -> float:
    """Return the largest error that an entry may have, in units of its size."""
    return MARGIN * max(float(np.abs(run).max()) for run in suspicion.errors.runs) or 1.0


def _histogram(suspicion: Suspicion) -> tuple[tuple[float, float, float], ...]:
    """(upper end of a bin in units in the last place, share of the candidate's errors, share of right code's)."""
    errors = suspicion.errors
    spacing = suspicion.spacing.reshape(errors.size.shape)
    ulps = [x * errors.size / spacing for x in (errors.candidate, *errors.runs)]
    bins = (-np.inf, *_EDGES, np.inf)
    own = np.histogram(ulps[0], bins)[0] / ulps[0].size
    right = np.mean([np.histogram(x, bins)[0] / x.size for x in ulps[1:]], axis=0)
    return tuple((float(end), float(a), float(b)) for end, a, b in zip(bins[1:], own, right, strict=True))
