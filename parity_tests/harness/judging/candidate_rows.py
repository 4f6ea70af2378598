"""One candidate in one format: a row for each check, with the verdict, the reason for it, and the failure explained."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from parity_tests.harness.candidates.asked_device import OTHER_BRANCH, asks_for_gpu, text_asks_for_gpu
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.reasons import AUTHOR, ITS_FRAMEWORK, REQUIRED, Reason, remedy
from parity_tests.harness.candidates.torch_log import TorchLog
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.checks import Check
from parity_tests.harness.checks.explanations import to_do
from parity_tests.harness.checks.low_precision import by_right_code
from parity_tests.harness.diagnosis.failures import described, explained, smallest_of, wrong_result
from parity_tests.harness.diagnosis.suspicions import suspected
from parity_tests.harness.exceptions.errors import first_line, map_of, where_of
from parity_tests.harness.exceptions.explaining import Explained, explain, unexplained
from parity_tests.harness.exceptions.from_solution import REFUSALS
from parity_tests.harness.findings import Comparison, Finding, Proof, Verdict
from parity_tests.harness.judging.certified import not_a_function, overflows_everywhere
from parity_tests.harness.judging.limits import held_to_limit
from parity_tests.harness.judging.outcome import End, Outcome, is_beyond_first_order, outcome_of, raised
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.judging.remedies import with_remedy
from parity_tests.harness.judging.reproducer import Reproducer
from parity_tests.harness.judging.row_findings import with_findings
from parity_tests.harness.judging.shrink import fails_at, raises_at
from parity_tests.harness.judging.titles import extent_of, title
from parity_tests.harness.judging.verdicts import NO_BOUND, NO_EVIDENCE, Conclusion, Judged, verdict_of
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.report.consequences import Failed
from parity_tests.harness.report.results import Event, Failure, Note, Row, Smallest
from parity_tests.harness.solutions.proxy import Solution
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.trial.empty_axes import of_another_shape
from parity_tests.harness.trial.trial import Trial


class History:
    """Facts about a candidate from the formats that have been judged.

    Attributes:
        failed: the checks that have failed.
        compared: the checks that have compared something.
        watched: the maps in which it was looked at whether the candidate asks for a device.
    """

    def __init__(self) -> None:
        self.failed, self.compared = Failed(), set[str]()
        self.watched: set[str] = set()
        self._noted: set[tuple[str, str]] = set()

    def news(self, notes: Iterable[Note]) -> Iterator[Note]:
        """The notes that say something new: the same error may come out of several maps and formats."""
        for note in notes:
            if note.about not in self._noted:
                self._noted.add(note.about)
                yield note


def _has_entries(sample: Sample) -> bool:
    return 0 not in sample.sizes.values()


def _are_zero(findings: Iterable[Finding]) -> set[bool]:
    """Whether all numbers of the oracle's are 0, of each result that has been compared."""
    return {not f.oracle.any() for f in findings if isinstance(f, Comparison)}


def _beyond(precision: Precision) -> str:
    return f"all values of the oracle exceed the largest number of {precision.name}, {precision.largest:g}"


@dataclass(frozen=True)
class CandidateRows:
    """The rows of one candidate in one format.

    Attributes:
        plan: what is to be judged.
        candidate, oracle, precision: whom, by whom, and in which format.
        history: what is known of the candidate from the formats before.
    """

    plan: Plan
    candidate: AnyCandidate
    oracle: Oracle
    precision: Precision
    history: History

    def events(
        self, checks: Iterable[Check], cases: Iterable[Sample], uncertified: Mapping[str, str]
    ) -> Iterator[Event]:
        """A row for each check, and a note for each sample that is not judged; `uncertified`: maps, and why."""
        earlier, name = self.plan.earlier, self.candidate.name
        if self.oracle.is_complex and self.precision.complex_name is None:
            reason = f"complex numbers take part, and {self.precision.name} has none"
            yield from (replace(self._blank(check.name), verdict=Verdict.SKIPPED, reason=reason) for check in checks)
            return
        with pinned() as replaced, TorchLog():
            refusals = [(s, self._refusal(s)) for s in cases if not earlier.avoids(name, s.name)]
            accepted = [s for s, note in refusals if note is None]
            usual = [s for s in accepted if not s.whole]
            beyond = [s for s in usual if overflows_everywhere(self.oracle.at(s), s, self.precision)]
        yield from self.history.news(note for _, note in refusals if note is not None)
        yield from self.history.news(self._note_of_replaced(replaced))
        none_left = bool(beyond) and all(s in beyond for s in usual if _has_entries(s))
        if not none_left:
            yield from (self._note(s, _beyond(self.precision)) for s in beyond)
        for check in checks:
            lacking = [name for name in check.maps if name in uncertified]
            if lacking:
                reason = f"the oracle's {lacking[0]} has no certificate: {uncertified[lacking[0]]}"
                yield replace(self._blank(check.name), verdict=Verdict.UNRESOLVED, reason=reason)
                continue
            with pinned() as replaced:
                excused = check.name in (self.candidate.limits or {}) or name in earlier.unshrunk
                worth_shrinking = self.history.failed.is_news(check.name, check.rests_on, self.precision)
                row, notes = self.row(check, accepted, worth_shrinking and not excused)
                powerless = self._told_nothing(row) and self.precision.is_short
                if powerless and (other := by_right_code(check)):
                    settled = self.row(other, accepted, worth_shrinking and not excused)
                    row, notes = (row, notes) if settled[0].verdict is Verdict.UNRESOLVED else settled
                if row.comparisons:
                    row = replace(row, unseen=self._unseen(check, accepted))
            yield from self.history.news([*notes, *self._note_of_replaced(replaced)])
            if row.verdict in (Verdict.MISMATCH, Verdict.ERROR):
                self.history.failed.add(check.name, check.rests_on, self.precision)
            if row.comparisons:
                self.history.compared.add(check.name)
            else:
                row = self._without_comparisons(row, check, none_left)
            yield held_to_limit(row, (self.candidate.limits or {}).get(row.check))

    def _without_comparisons(self, row: Row, check: Check, none_left: bool) -> Row:
        """A row that has compared nothing; `none_left`: the format has none of the operator's values."""
        elsewhere, avoided = check.name in self.history.compared, self.plan.earlier.avoided.get(self.candidate.name)
        if row.verdict is Verdict.UNRESOLVED and none_left:
            # In a format without its values an operator does not exist; elsewhere it has been judged.
            verdict = Verdict.SKIPPED if elsewhere else Verdict.UNRESOLVED
            return replace(row, verdict=verdict, reason=f"at every sample {_beyond(self.precision)}")
        if not self._told_nothing(row):
            return row
        if check.kernel_sized or (elsewhere and check.name not in check.maps):
            # Other checks compare the same maps, entry by entry and at more samples, and a wider format has compared
            # something at these.
            return replace(row, verdict=Verdict.SKIPPED)
        if avoided:
            return replace(row, reason=f"{row.reason}; it is not called any more at {', '.join(sorted(avoided))}")
        return row

    def row(self, check: Check, cases: Iterable[Sample], shrink: bool) -> tuple[Row, list[Note]]:
        """The row of a check, with the failure explained, and what is to be noted of samples that it did not judge.

        `shrink`: whether the smallest input that fails is looked for.
        """
        start, row = time.perf_counter(), self._blank(check.name)
        inapplicable = self._inapplicable(check)
        if inapplicable:
            return replace(row, verdict=Verdict.SKIPPED, reason=inapplicable), []
        outcomes: list[Outcome] = []
        bounded, sizes, log, proofs = False, set[bool](), TorchLog(), list[Proof]()
        for sample in check.chosen(list(cases)):
            with log:
                outcome = outcome_of(check, self.trial_at(check.name, sample))
            if outcome.end is End.REFUSED and not _has_entries(sample) and any(o.end is End.COMPLETE for o in outcomes):
                outcome = replace(outcome, end=End.EMPTY_REFUSED)
            row = self._with_extent(with_findings(row, outcome.findings), sample, outcome)
            bounded |= any(not isinstance(f, Comparison) or np.isfinite(f.bound).any() for f in outcome.findings)
            sizes |= _are_zero(outcome.findings)
            proofs += [f for f in outcome.findings if isinstance(f, Proof)]
            telling = outcome.wrong or outcome.suspicions
            outcomes.append(outcome if telling else replace(outcome, findings=()))  # which may be large
            if outcome.is_final:
                break
        notes = [note for outcome in outcomes if (note := self._note_of(outcome)) is not None]
        zero, short = all(sizes) if sizes else None, self.precision.name if self.precision.is_short else ""
        unproved = next((f"{f.label} {f.text}" for f in proofs if f.same is False), "")
        conclusion = verdict_of(Judged(outcomes, row.comparisons, bounded, zero, short, bool(proofs), unproved))
        row = replace(self._concluded(row, conclusion), seconds=time.perf_counter() - start)
        decider = conclusion.outcome
        if decider is None or conclusion.verdict not in (Verdict.MISMATCH, Verdict.SUSPECT):
            return row, notes
        if (reason := not_a_function(decider.trial.oracle, decider.trial.sample)) is not None:
            return replace(row, verdict=Verdict.UNRESOLVED, reason=reason), notes
        if conclusion.verdict is Verdict.SUSPECT:
            return replace(row, failure=suspected(row, decider.trial, decider.suspicions, self.plan.replay)), notes
        with TorchLog():  # of what explains it
            failure = self._failure(row, check, decider, outcomes, shrink)
        return replace(row, failure=replace(failure, log=log.text)), notes

    def _unseen(self, check: Check, cases: Sequence[Sample]) -> tuple[str, ...]:
        """Return a line if a branch of the candidate cannot have run on a CPU, by one more call after the check's own.

        So whatever crashes or hangs has done so in the row of the check.
        """
        name = "vjp" if "vjp" in check.maps else "forward"
        sample = next((s for s in check.chosen(cases) if _has_entries(s)), None)
        if sample is None or name in self.history.watched:
            return ()
        if self.plan.device != "cpu" or self.candidate.framework != "torch":
            return ()
        self.history.watched.add(name)
        called = getattr(self.candidate.source, "func", self.candidate.source)
        if isinstance(called, Solution):  # nothing of its process is believed, and its text is data
            text = called.process.solved.path.read_text(encoding="utf-8", errors="replace")
            return (OTHER_BRANCH,) if text_asks_for_gpu(text) else ()
        trial = self.trial_at(check.name, sample)
        with TorchLog():  # the row has the log of the check's own calls
            asked = asks_for_gpu(lambda: trial.evaluate(name, trial.arguments(name)))
        return (OTHER_BRANCH,) if asked else ()

    def _with_extent(self, row: Row, sample: Sample, outcome: Outcome) -> Row:
        """A row that knows the sample, if it is the largest at which anything was compared."""
        if not outcome.findings or sample.entries <= row.numbers:
            return row
        whole = sum(math.prod(x.shape) for x in self.plan.spec.given_size)
        return replace(row, largest=extent_of(sample, self.oracle.at(sample)), numbers=sample.entries, of_numbers=whole)

    def trial_at(self, check: str, sample: Sample) -> Trial:
        """A trial of the candidate at a sample, under a check of this name."""
        self.plan.on_trial(self._blank(check), sample)
        return self._trial(sample)

    def _trial(self, sample: Sample) -> Trial:
        oracle = self.oracle.at(sample)
        constants = conversion.constants(sample.constants, self.precision, self.plan.device)
        spec = self.plan.spec
        call = self.candidate.bound(constants, spec.params_at(sample.sizes), oracle.returns, spec.arranged)
        if sample.absent:
            domains = spec.drawn_from
            call = call.without([i for i in sample.absent if domains[i].differentiable])
        contract = spec.contract_of(self.candidate.name)
        precision = self.precision if contract is None else self.precision.under(contract)
        return Trial(call, oracle, sample, precision, self.plan.device, self._trial)

    def _blank(self, check: str) -> Row:
        return self.plan.blank(self.candidate.name, check, self.precision)

    def _inapplicable(self, check: Check) -> str:
        """Why a check has nothing to say about such a candidate or format; empty if it has."""
        if check.whole and not self.plan.spec.given_size:
            return "all of what is given is judged, none of it was cut"
        inapplicable = check.inapplicable_to(self.candidate.framework)
        return inapplicable or (check.real_only if self.precision.is_complex else "")

    def _refusal(self, sample: Sample) -> Note | None:
        """How the candidate's forward refuses a sample with an empty axis, as PyTorch's own often do; None if not."""
        if _has_entries(sample):
            return None
        trial = self.trial_at("forward", sample)
        try:
            outputs = trial.candidate.forward(trial.tensors(trial.primals))
            other = of_another_shape(trial, outputs)
        except Refused:
            return None  # the rows will say so, as of whatever else goes wrong
        except REFUSALS as error:
            return self._note(sample, f"{self.candidate.name} refuses an empty axis", first_line(error))
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None
        return None if other is None else self._note(sample, self.candidate.name, other)

    def _note_of(self, outcome: Outcome) -> Note | None:
        """A note on a sample that a check did not judge; None for one that it judged."""
        sample, error = outcome.trial.sample, outcome.error
        if error is not None and outcome.end is End.EMPTY_REFUSED:
            what = f"{self.candidate.name} refuses an empty axis in {map_of(error) or 'a derivative'}"
            return self._note(sample, what, first_line(error))
        if error is not None and outcome.end is End.EMPTY_UNDEFINED:
            return self._note(sample, "the oracle has no derivative there", where_of(error))
        return None

    def _note(self, sample: Sample, what: str, why: str = "") -> Note:
        text = f"{self.plan.spec.name}, sample {sample.name}: {what}{': ' if why else ''}{why}"
        return Note(text, about=(sample.name, why))

    def _note_of_replaced(self, functions: Sequence[str]) -> list[Note]:
        """Return a note that the candidate has replaced functions, if it has."""
        what = f"{self.candidate.name} replaced {', '.join(functions)}, put back after each check"
        return [Note(f"{self.plan.spec.name}: {what}", about=("", what))] if functions else []

    def _told_nothing(self, row: Row) -> bool:
        return row.reason.startswith(NO_EVIDENCE) or row.reason == NO_BOUND.format(largest=self.precision.largest)

    def _concluded(self, row: Row, conclusion: Conclusion) -> Row:
        """A row with its verdict, and the reason for it."""
        verdict, outcome = conclusion.verdict, conclusion.outcome
        if outcome is None:
            return replace(row, verdict=verdict, reason=conclusion.reason.format(largest=self.precision.largest))
        if verdict in (Verdict.MISMATCH, Verdict.SUSPECT) or outcome.error is None:
            return replace(row, verdict=verdict)
        if isinstance(outcome.error, Refused):
            return self._refused(row, outcome.trial, outcome.error)
        if verdict is Verdict.ERROR:
            reason = with_remedy(f"{where_of(outcome.error)} [{title(outcome.trial.sample)}]")
            return replace(row, verdict=verdict, reason=reason)
        return replace(row, verdict=verdict, reason=str(outcome.error))

    def _refused(self, row: Row, trial: Trial, refusal: Refused) -> Row:
        """A row that the candidate refuses; excused by the reason, unless the author lists the limits."""
        row = replace(row, verdict=Verdict.UNSUPPORTED, reason=str(refusal))
        excused = refusal.excuses(row.check, row.dtype) and self.candidate.limits is None
        if excused and refusal.reason is Reason.FORMAT and row.check in REQUIRED:
            excused = _forward_refuses(trial)
        if not excused:
            listed = row.check in (self.candidate.limits or {})
            return row if listed else replace(row, reason=f"{refusal}; {remedy(refusal, row.check)}")
        whose = refusal.reason.whose
        declared = whose == AUTHOR
        return replace(row, listed=True, declared=declared, limit_of="" if declared else self._named(whose))

    def _named(self, whose: str) -> str:
        return self.candidate.framework if whose == ITS_FRAMEWORK else whose

    def _failure(self, row: Row, check: Check, outcome: Outcome, outcomes: Sequence[Outcome], shrink: bool) -> Failure:
        """Return the failure at the sample that decides, with an exception that the candidate raises at another one."""
        findings = [*outcome.findings, *([raised(outcome, check.name)] if outcome.end is End.RAISED else [])]
        failure = self._diagnosed(row, outcome.trial, findings)
        elsewhere = next((o for o in outcomes if o.end is End.RAISED), outcome)
        if outcome.wrong and elsewhere is not outcome:
            result = wrong_result(raised(elsewhere, check.name), self.plan.spec, check.name).value
            where = "; ".join(part for part in (f"at {title(elsewhere.trial.sample)}", result.circumstance) if part)
            failure = replace(failure, wrong=(*failure.wrong, replace(result, circumstance=where)))
        failing = [o for o in outcomes if o.wrong or o.end is End.RAISED]
        beyond = all(is_beyond_first_order(o, check.name) for o in failing)
        failure = replace(failure, beyond_first_order=beyond)
        step = explain("what to do", lambda: to_do(check, self.candidate.framework, bool(outcome.wrong)))
        failure = _with_lines(replace(failure, to_do=failure.to_do or step.value or ""), step)
        if not shrink:
            return failure
        smaller = self._with_smallest if outcome.wrong else self._with_smallest_sizes
        shrunk = explain("shrinking", lambda: smaller(failure, check, outcome))
        return _with_lines(shrunk.value or failure, shrunk)

    def _diagnosed(self, row: Row, trial: Trial, findings: list[Finding]) -> Failure:
        """The failure of a row on one trial, with the command that judges it again."""
        diagnosed = explain("the diagnosis", lambda: explained(row, trial, findings))
        failure = diagnosed.value
        if failure is None:
            failure = described(row, trial.sample, [f for f in findings if not f.holds], self.plan.spec)
        replay = explain("how to replay it", lambda: self.plan.replay(row))
        return _with_lines(replace(failure, replay=replay.value), diagnosed, replay)

    def _with_smallest(self, failure: Failure, check: Check, outcome: Outcome) -> Failure:
        """Add to a row the smallest input that fails, and what a reproducer of it needs."""
        plan, trial_at, sample = self.plan, partial(self.trial_at, check.name), outcome.trial.sample
        found = fails_at(plan.spec, trial_at, check, sample, outcome.findings, plan.shrink_deadline())
        if found is None:  # it does not fail again, or nothing is to be shrunk
            return failure
        trial, wrong = found
        smallest = smallest_of(failure, trial, wrong)
        position = next(i for i, other in enumerate(plan.candidates) if other is self.candidate)
        make = partial(Reproducer, plan.spec, self.candidate, position, check, trial, wrong, plan.case, plan.origin)
        evidence = explain("the reproducer", make)
        return _with_lines(replace(failure, smallest=smallest.value, evidence=evidence.value), smallest, evidence)

    def _with_smallest_sizes(self, failure: Failure, check: Check, outcome: Outcome) -> Failure:
        """Add to a row the smallest sizes at which the candidate raises the same exception."""
        trial_at = partial(self.trial_at, check.name)
        smallest = raises_at(self.plan.spec, trial_at, check, outcome, self.plan.shrink_deadline())
        if smallest is None:
            return failure
        result = wrong_result(raised(smallest, check.name), self.plan.spec, check.name)
        smallest = Smallest(dict(smallest.trial.sample.sizes), {}, result.value)
        return _with_lines(replace(failure, smallest=smallest), result)


def _forward_refuses(trial: Trial) -> bool:
    """True if the forward, recorded, is refused by PyTorch for the format: then its derivative need not exist there."""
    try:
        trial.candidate.record(trial.tensors(trial.primals))
    except Refused as refusal:
        return refusal.reason is Reason.FORMAT
    except REFUSALS:
        return False
    return False


def _with_lines(failure: Failure, *explanations: Explained) -> Failure:
    """A failure with the lines of explanations that raised."""
    return replace(failure, unexplained=unexplained(Explained(failure, failure.unexplained), *explanations))
