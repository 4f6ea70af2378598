"""The verdict on what a check did at several samples: a table, read from the top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.outcome import End, Outcome

NO_EVIDENCE = "no comparison could tell the candidate from one that returns zeros"
OF_ZEROS = f"{NO_EVIDENCE}: the oracle's results are 0; give inputs at which they are not (domains of OpSpec)"
OF_WIDE_BOUNDS = (  # a row of a wide format may have judged the rounding of a short one, as of autocast
    f"{NO_EVIDENCE}: right code may be off by as much as the results are large; judge at smaller inputs (domains of "
    "OpSpec)"
)
OF_A_SHORT_FORMAT = (
    f"{NO_EVIDENCE}: in {{short}} right code may be off by as much as the results are large; judge in float32 or "
    "float64, or at smaller inputs (domains of OpSpec)"
)
NO_BOUND = (
    "no result has an error bound: an intermediate of the oracle may exceed the format's largest number, {largest:g}, "
    "or be undefined to rounding; give a primal without it, or leave the format out (OpSpec.dtypes)"
)


@dataclass(frozen=True)
class Judged:
    """The outcomes of a check at all of its samples, and how much they compared.

    Attributes:
        outcomes: one for each sample.
        comparisons: the number of entries and properties that could have told a wrong answer.
        bounded: whether anything that was compared has an error bound.
        zero: whether every number of the oracle's that was compared is 0; None if there is none.
        short: the name of the format, if it is one of 16 bits.
        proofs: whether programs were proved to be the same, of a check that compares programs.
        unproved: a difference between programs, which no number has shown; empty if there is none.
    """

    outcomes: Sequence[Outcome]
    comparisons: int
    bounded: bool
    zero: bool | None = None
    short: str = ""
    proofs: bool = False
    unproved: str = ""

    def first(self, holds: Callable[[Outcome], bool]) -> Outcome | None:
        """The first outcome for which a condition holds; None if there is none."""
        return next((outcome for outcome in self.outcomes if holds(outcome)), None)

    def ended(self, end: End) -> Outcome | None:
        """The first outcome that ended so; None if there is none."""
        return self.first(lambda outcome: outcome.end is end)


@dataclass(frozen=True)
class Conclusion:
    """A verdict. `outcome`: the one that decides it, if one does; `reason`: why, if none does, for `str.format`."""

    verdict: Verdict
    outcome: Outcome | None = None
    reason: str = ""


def _inapplicable(judged: Judged) -> Outcome | None:
    return None if judged.ended(End.COMPLETE) else judged.ended(End.INAPPLICABLE)


# A wrong result comes before an exception of the candidate's, of whichever sample, and both before what the harness
# could not do. Each line: which outcome decides, and the verdict.
TABLE: tuple[tuple[Callable[[Judged], Outcome | None], Verdict], ...] = (
    (lambda judged: judged.first(lambda outcome: bool(outcome.wrong)), Verdict.MISMATCH),
    (lambda judged: judged.ended(End.RAISED), Verdict.MISMATCH),
    (lambda judged: judged.ended(End.BROKEN), Verdict.ERROR),
    (lambda judged: judged.first(lambda outcome: bool(outcome.suspicions)), Verdict.SUSPECT),
    (lambda judged: judged.ended(End.UNRESOLVED), Verdict.UNRESOLVED),
    (lambda judged: judged.ended(End.REFUSED), Verdict.UNSUPPORTED),
    (_inapplicable, Verdict.SKIPPED),
)


def verdict_of(judged: Judged) -> Conclusion:
    """The verdict of the first line of `TABLE` that an outcome decides; else PASS, if anything was compared."""
    for deciding, verdict in TABLE:
        outcome = deciding(judged)
        if outcome is not None:
            return Conclusion(verdict, outcome)
    if judged.unproved:
        return Conclusion(Verdict.UNRESOLVED, reason=judged.unproved)
    if judged.comparisons == 0:
        return Conclusion(Verdict.UNRESOLVED, reason=_without_evidence(judged))
    return Conclusion(Verdict.PROVED if judged.proofs else Verdict.PASS)


def _without_evidence(judged: Judged) -> str:
    if not judged.bounded:
        return NO_BOUND
    if judged.zero is None:
        return NO_EVIDENCE
    if judged.zero:
        return OF_ZEROS
    return OF_A_SHORT_FORMAT.format(short=judged.short) if judged.short else OF_WIDE_BOUNDS
