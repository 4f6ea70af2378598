"""The verdict on what a check did at several samples: a table, read from the top."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import numpy as np

from parity_tests.harness.checks import Check
from parity_tests.harness.exceptions.errors import where_of
from parity_tests.harness.findings import Comparison, Proof, Verdict
from parity_tests.harness.judging.outcome import End, Outcome
from parity_tests.harness.judging.remedies import with_remedy
from parity_tests.harness.judging.titles import title
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.report.results import Row

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
NO_BOUND = "no result has an error bound"
OF_NO_BOUND = (
    f"{NO_BOUND}: an intermediate of the oracle may exceed the dtype's largest number, {{largest:g}}, "
    "or be undefined to rounding; give a primal without it, or leave the dtype out (OpSpec.dtypes)"
)


@dataclass
class Judged:
    """The outcomes of a check at its samples in a format, one by one, and how much they compared.

    Attributes:
        precision: the format.
        outcomes: one for each sample so far.
        comparisons: the number of entries and properties that could have told a wrong answer.
        bounded: whether anything that was compared has an error bound.
        zero: whether every number of the oracle's that was compared is 0; None if there is none.
        proved: whether programs were proved to be the same, of a check that compares programs.
        unproved: a difference between programs, which no number has shown; empty if there is none.
    """

    precision: Precision
    outcomes: list[Outcome] = field(default_factory=list)
    comparisons: int = 0
    bounded: bool = False
    zero: bool | None = None
    proved: bool = False
    unproved: str = ""

    def add(self, outcome: Outcome) -> Outcome:
        """Take one more outcome, and return it as it counts: an empty axis is refused if another sample is accepted.

        It is kept without its findings if all of them hold, since they may be large.
        """
        if outcome.end is End.REFUSED and outcome.trial.sample.has_empty_axis and self.ended(End.COMPLETE):
            outcome = replace(outcome, end=End.EMPTY_REFUSED)
        for f in outcome.findings:
            self.comparisons += f.evidence
            self.bounded |= not isinstance(f, Comparison) or bool(np.isfinite(f.bound).any())
            if isinstance(f, Comparison):
                self.zero = self.zero is not False and not f.oracle.any()
            if isinstance(f, Proof):
                self.proved, self.unproved = True, self.unproved or (f"{f.label} {f.text}" if f.same is False else "")
        telling = outcome.wrong or outcome.suspicions
        self.outcomes.append(outcome if telling else replace(outcome, findings=()))
        return outcome

    def first(self, holds: Callable[[Outcome], bool]) -> Outcome | None:
        """The first outcome for which a condition holds; None if there is none."""
        return next((outcome for outcome in self.outcomes if holds(outcome)), None)

    def ended(self, end: End) -> Outcome | None:
        """The first outcome that ended so; None if there is none."""
        return self.first(lambda outcome: outcome.end is end)


@dataclass(frozen=True)
class Conclusion:
    """A verdict. `outcome`: the one that decides it, if one does; `why`: the reason if none does."""

    verdict: Verdict
    outcome: Outcome | None = None
    why: str = ""

    @property
    def reason(self) -> str:
        """The reason for the verdict; empty where it is a failure, which says more."""
        outcome, verdict = self.outcome, self.verdict
        if outcome is None or outcome.error is None or verdict in (Verdict.MISMATCH, Verdict.SUSPECT):
            return self.why
        if verdict is Verdict.ERROR:
            return with_remedy(f"{where_of(outcome.error)} [{title(outcome.trial.sample)}]")
        return str(outcome.error)


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
        return Conclusion(Verdict.UNRESOLVED, why=judged.unproved)
    if judged.comparisons == 0:
        return Conclusion(Verdict.UNRESOLVED, why=_without_evidence(judged))
    return Conclusion(Verdict.PROVED if judged.proved else Verdict.PASS)


def has_no_evidence(reason: str) -> bool:
    """True if this is the reason of a row whose comparisons could not have told a wrong answer."""
    return reason.startswith((NO_EVIDENCE, NO_BOUND))


def without_comparisons(row: Row, check: Check, elsewhere: bool, overflow: str, avoided: Collection[str]) -> Row:
    """Return the row of a check that has compared nothing: skipped if another row answers its question.

    `elsewhere`: it has compared something in another format; `overflow`: why none of the values exists in this one;
    `avoided`: the samples at which the candidate is not called any more.
    """
    if row.verdict is Verdict.UNRESOLVED and overflow:
        # In a format without its values an operator does not exist; elsewhere it has been judged.
        return replace(row, verdict=Verdict.SKIPPED if elsewhere else Verdict.UNRESOLVED, reason=overflow)
    if not has_no_evidence(row.reason):
        return row
    if check.kernel_sized or (elsewhere and check.name not in check.maps):
        # Other checks compare the same maps, entry by entry and at more samples, and a wider format has compared
        # something at these.
        return replace(row, verdict=Verdict.SKIPPED)
    lacking = f"; it is not called any more at {', '.join(sorted(avoided))}" if avoided else ""
    return replace(row, reason=row.reason + lacking)


def _without_evidence(judged: Judged) -> str:
    if not judged.bounded:
        return OF_NO_BOUND.format(largest=judged.precision.largest)
    if judged.zero is None:
        return NO_EVIDENCE
    if judged.zero:
        return OF_ZEROS
    return OF_A_SHORT_FORMAT.format(short=judged.precision.name) if judged.precision.is_short else OF_WIDE_BOUNDS
