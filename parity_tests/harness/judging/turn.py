"""One candidate in one format: its trials, the notes about it, and what is known from the formats before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.checks import Check
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.report.consequences import Failed
from parity_tests.harness.report.results import Note, Row
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.trial.trial import Trial


class History:
    """The rows of one candidate so far.

    Attributes:
        compared: the checks that have compared something.
        watched: the maps in which it was looked at whether the candidate asks for a device.
    """

    def __init__(self) -> None:
        self.compared, self.watched = set[str](), set[str]()
        self._failed, self._noted = Failed(), set[tuple[str, str]]()

    def add(self, row: Row, check: Check, precision: Precision) -> None:
        """Add the row of a check in a format."""
        if row.verdict in (Verdict.MISMATCH, Verdict.ERROR):
            self._failed.add(check.name, check.rests_on, precision)
        if row.comparisons:
            self.compared.add(check.name)

    def is_news(self, check: Check, precision: Precision) -> bool:
        """True if a failure of a check in a format would follow from none so far; see `Failed`."""
        return self._failed.is_news(check.name, check.rests_on, precision)

    def news(self, notes: Iterable[Note]) -> Iterator[Note]:
        """The notes that say something new: the same error may come out of several maps and formats."""
        for note in notes:
            if note.about not in self._noted:
                self._noted.add(note.about)
                yield note


@dataclass(frozen=True)
class Turn:
    """The plan, and which of its candidates is judged, by which oracle, in which format, after which rows."""

    plan: Plan
    candidate: AnyCandidate
    oracle: Oracle
    precision: Precision
    history: History = field(default_factory=History)

    def trial_at(self, check: str, sample: Sample) -> Trial:
        """A trial of the candidate at a sample, under a check of this name."""
        self.plan.on_trial(self.blank(check), sample)
        return self._trial(sample)

    def _trial(self, sample: Sample) -> Trial:
        spec, oracle = self.plan.spec, self.oracle.at(sample)
        constants = conversion.constants(sample.constants, self.precision, self.plan.device)
        call = self.candidate.bound(constants, spec.params_at(sample.sizes), oracle.returns, spec.arranged)
        if sample.absent:
            domains = spec.drawn_from
            call = call.without([i for i in sample.absent if domains[i].differentiable])
        arithmetic = self.candidate.arithmetic
        precision = self.precision if arithmetic is None else self.precision.under(arithmetic)
        return Trial(call, oracle, sample, precision, self.plan.device, self._trial)

    def is_worth_shrinking(self, check: Check) -> bool:
        """True if the smallest input at which a check fails is to be looked for."""
        excused = check.name in (self.candidate.limits or {}) or self.candidate.name in self.plan.earlier.unshrunk
        return not excused and self.history.is_news(check, self.precision)

    def why_inapplicable(self, check: Check) -> str:
        """Why a check has nothing to say about such a candidate or format; empty if it has."""
        if check.whole and not self.plan.spec.given_size:
            return "all of what is given is judged, none of it was cut"
        inapplicable = check.inapplicable_to(self.candidate.framework)
        return inapplicable or (check.real_only if self.precision.is_complex else "")

    def blank(self, check: str) -> Row:
        """A row without comparisons; see `Plan.blank`."""
        return self.plan.blank(self.candidate.name, check, self.precision)

    def note(self, sample: Sample, what: str, why: str = "") -> Note:
        """A note on a sample that is not judged."""
        text = f"{self.plan.spec.name}, sample {sample.name}: {what}{': ' if why else ''}{why}"
        return Note(text, about=(sample.name, why or what))

    def notes_of_replaced(self, functions: Sequence[str]) -> list[Note]:
        """Return a note that the candidate has replaced functions, if it has."""
        what = f"{self.candidate.name} replaced {', '.join(functions)}, put back after each check"
        return [Note(f"{self.plan.spec.name}: {what}", about=("", what))] if functions else []
