"""The court's session: every candidate x check x dtype, one row each, as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.candidates.torch_log import TorchLog
from parity_tests.harness.checks import Check
from parity_tests.harness.diagnosis.failures import described, explained, smallest_of, wrong_result
from parity_tests.harness.exceptions.errors import first_line, map_of, where_of
from parity_tests.harness.exceptions.explaining import explain
from parity_tests.harness.findings import Comparison, Finding, Verdict
from parity_tests.harness.judging.court import Court, is_beyond, not_a_function, only_real, title, with_findings
from parity_tests.harness.judging.docket import Docket
from parity_tests.harness.judging.limits import held_to_limit
from parity_tests.harness.judging.outcome import REFUSALS, End, Outcome, deciding, raised, run
from parity_tests.harness.judging.remedies import with_remedy
from parity_tests.harness.judging.reproducer import Reproducer
from parity_tests.harness.judging.resume import key_of
from parity_tests.harness.judging.shrink import fails_at, raises_at
from parity_tests.harness.numbers import bridge
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.numbers.precision import Precision
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.report.consequences import Failed
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE, Failure, Row, Smallest
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.trial.empty_axes import of_another_shape
from parity_tests.harness.trial.trial import Trial

ABOUT_TENSORS = "it is about PyTorch's tensors and what PyTorch does with them"
NOTHING_TOLD = "nothing was compared that an answer of zeros would fail"
_NO_BOUND = (
    "no result has an error bound: an intermediate of the oracle may exceed the format's largest number, {largest:g}, "
    "or be undefined to rounding; give a primal without it, or leave the format out (OpSpec.dtypes)"
)


def judge(docket: Docket, report: Report) -> Generator[Row, None, None]:
    """Certify the oracle, then judge every candidate; a map without a certificate judges nobody.

    Each row is added to the report and yielded as soon as it is known, but for those that an earlier process has found
    (`Docket.earlier`); who is not built is noted first.

    Raises:
        OracleError: the primal does not run, does not fit its signature, or is not a function of float64.
    """
    for candidate in docket.candidates:
        if isinstance(candidate, NotBuilt) and candidate not in report.not_built:
            report.not_built.append(candidate)
    for row in _rows(docket, report.skipped):
        report.rows.append(row)
        yield row


def _rows(docket: Docket, skipped: list[str]) -> Iterator[Row]:
    court = docket.court or Court(docket.spec, docket.device, docket.seed, docket.samples)
    uncertified: dict[Precision, dict[str, str]] = {}
    yield from _certificates(docket, court, skipped, uncertified)
    for candidate in docket.present:
        failed = Failed()
        compared: set[str] = set()  # the checks that have compared something, in one of the formats so far
        for precision in docket.precisions:
            checks = _unknown(docket, candidate.name, precision, failed, compared)
            fixed = _fixed(docket, court, candidate.name, precision)
            if fixed is not None:
                for check in checks:
                    verdict, reason = fixed
                    yield replace(_blank(docket, candidate.name, check.name, precision), verdict=verdict, reason=reason)
            elif checks:
                bench, without = court.bench(precision.double), uncertified[precision.double]
                judging = _Judging(docket, candidate, bench.oracle, precision, skipped)
                yield from judging.rows(checks, bench.cases, without, failed, compared)


def _unknown(docket: Docket, candidate: str, precision: Precision, failed: Failed, compared: set[str]) -> list[Check]:
    """The checks of a format whose rows no earlier process has found; of the others, what the rows to come rely on."""
    checks = []
    for check in docket.checks_in(precision):
        row = docket.earlier.rows.get((candidate, check.name, precision.name))
        if row is None:
            checks.append(check)
            continue
        if row.verdict in (Verdict.MISMATCH, Verdict.ERROR):
            failed.add(check.name, check.rests_on, precision)
        compared |= {check.name} if row.comparisons else set()
    return checks


def _fixed(docket: Docket, court: Court, candidate: str, precision: Precision) -> tuple[Verdict, str] | None:
    """The verdict, and the reason, where nothing of a candidate is run in a format."""
    given_up = docket.earlier.given_up.get(candidate)
    if given_up is not None:
        return Verdict.UNRESOLVED, given_up
    inapplicable = only_real(docket.spec, precision.double)
    if inapplicable is not None:
        return Verdict.SKIPPED, inapplicable
    unusable = court.bench(precision.double).unusable
    return None if unusable is None else (Verdict.UNRESOLVED, unusable)


def _certificates(
    docket: Docket, court: Court, skipped: list[str], uncertified: dict[Precision, dict[str, str]]
) -> Iterator[Row]:
    """The oracle's own rows; `uncertified` gets, for each kind of numbers, the maps without a certificate, and why."""
    known = docket.earlier.rows
    for kind in docket.kinds:
        inapplicable = only_real(docket.spec, kind)
        if inapplicable:
            for name in docket.certificates:
                blank = _blank(docket, ORACLE, name, kind)
                if key_of(blank) not in known:
                    yield replace(blank, verdict=Verdict.SKIPPED, reason=inapplicable)
            continue
        bench = court.bench(kind)
        _add(skipped, *bench.skipped)
        uncertified[kind] = {}
        for name in docket.certificates:
            key = (ORACLE, name, kind.name)
            row = known[key] if key in known else bench.certificate(name)
            if not row.passed:
                uncertified[kind][name] = row.reason or "the witnesses disagree"
            if key not in known:
                yield row
        _add(skipped, *bench.skipped)


def _add(skipped: list[str], *lines: str) -> None:
    skipped.extend(line for line in dict.fromkeys(lines) if line not in skipped)


def _nothing(precision: Precision) -> tuple[str, str]:
    """Why a row may have compared nothing."""
    return NOTHING_TOLD, _NO_BOUND.format(largest=precision.largest)


def _has_entries(sample: Sample) -> bool:
    return 0 not in sample.sizes.values()


def _beyond(precision: Precision) -> str:
    return f"all values of the oracle exceed the largest number of {precision.name}, {precision.largest:g}"


def _blank(docket: Docket, candidate: str, check: str, precision: Precision) -> Row:
    return Row(docket.spec.name, candidate, check, precision.name, docket.device, Verdict.PASS, 0.0, 0)


def judge_at(docket: Docket, report: Report) -> Row:
    """The first candidate under the first check, at the first sample, whatever the check looks at otherwise.

    For a replay: the oracle has had its certificate, and what has been shrunk is not shrunk further. The row is added
    to the report.

    Raises:
        OracleError: the primal does not run at the sample.
    """
    check, precision = replace(docket.checks[0], large=True, generic=False), docket.precisions[0]
    sample = next(iter(docket.samples(docket.spec, docket.seed)))
    with pinned(docket.device):
        judging = _Judging(docket, docket.present[0], Oracle(docket.spec, sample), precision, report.skipped)
        report.rows.append(judging.row(check, [sample], shrink=False))
    return report.rows[-1]


@dataclass(frozen=True)
class _Judging:
    """One candidate in one format. `skipped`: gets a line for each sample that is not judged."""

    docket: Docket
    candidate: AnyCandidate
    oracle: Oracle
    precision: Precision
    skipped: list[str]

    def rows(
        self,
        checks: Iterable[Check],
        cases: Iterable[Sample],
        uncertified: Mapping[str, str],
        failed: Failed,
        compared: set[str],
    ) -> Iterator[Row]:
        """A row for each check; `failed` and `compared` are of the candidate's checks in the formats before."""
        earlier, name = self.docket.earlier, self.candidate.name
        if self.oracle.is_complex and self.precision.complex_name is None:
            reason = f"complex numbers take part, and {self.precision.name} has none"
            yield from (replace(self._blank(check.name), verdict=Verdict.SKIPPED, reason=reason) for check in checks)
            return
        with pinned(self.docket.device), TorchLog():
            accepted = [s for s in cases if not earlier.avoids(name, s.name) and self._is_accepted(s)]
            beyond = [s for s in accepted if is_beyond(self.oracle.at(s), s, self.precision)]
        none_left = bool(beyond) and all(s in beyond for s in accepted if _has_entries(s))
        if not none_left:
            op = self.docket.spec.name
            _add(self.skipped, *(f"{op}, sample {s.name}: {_beyond(self.precision)}" for s in beyond))
        for check in checks:
            lacking = [name for name in check.maps if name in uncertified]
            if lacking:
                reason = f"the oracle's {lacking[0]} has no certificate: {uncertified[lacking[0]]}"
                yield replace(self._blank(check.name), verdict=Verdict.UNRESOLVED, reason=reason)
                continue
            with pinned(self.docket.device):
                excused = check.name in (self.candidate.limits or {}) or name in earlier.unshrunk
                row = self.row(
                    check, accepted, failed.is_news(check.name, check.rests_on, self.precision) and not excused
                )
            if row.verdict in (Verdict.MISMATCH, Verdict.ERROR):
                failed.add(check.name, check.rests_on, self.precision)
            if row.comparisons:
                compared.add(check.name)
            elif row.verdict is Verdict.UNRESOLVED and none_left:
                # In a format without its values an operator does not exist; elsewhere it has been judged.
                verdict = Verdict.SKIPPED if check.name in compared else Verdict.UNRESOLVED
                row = replace(row, verdict=verdict, reason=f"at every sample {_beyond(self.precision)}")
            elif row.reason in _nothing(self.precision) and check.generic and check.name in compared:
                # A wider format has compared something at the few samples that the check looks at.
                row = replace(row, verdict=Verdict.SKIPPED)
            elif row.reason in _nothing(self.precision) and earlier.avoided.get(name):
                where = ", ".join(sorted(earlier.avoided[name]))
                row = replace(row, reason=f"{row.reason}; it is not called any more at {where}")
            yield held_to_limit(row, (self.candidate.limits or {}).get(row.check))

    def row(self, check: Check, cases: Iterable[Sample], shrink: bool) -> Row:
        """The row of a check, with the failure explained; with the smallest one, if it is to be shrunk."""
        start, row = time.perf_counter(), self._blank(check.name)
        inapplicable = self._inapplicable(check)
        if inapplicable:
            return replace(row, verdict=Verdict.SKIPPED, reason=inapplicable)
        outcomes: list[Outcome] = []
        bounded, log = False, TorchLog()
        for sample in cases:
            if not check.looks_at(sample):
                continue
            with log:
                outcome = run(check, self.trial_at(check.name, sample))
            if outcome.end is End.REFUSED and not _has_entries(sample) and any(o.end is End.COMPLETE for o in outcomes):
                outcome = replace(outcome, end=End.EMPTY_REFUSED)
            row = with_findings(row, outcome.findings)
            bounded |= any(not isinstance(f, Comparison) or np.isfinite(f.bound).any() for f in outcome.findings)
            self._note_skipped(outcome)
            outcomes.append(outcome if outcome.wrong else replace(outcome, findings=()))  # which may be large
            if outcome.is_final:
                break
        row = replace(self._concluded(row, outcomes, bounded), seconds=time.perf_counter() - start)
        if row.verdict is Verdict.MISMATCH and (reason := self._not_a_function(outcomes)) is not None:
            return replace(row, verdict=Verdict.UNRESOLVED, reason=reason)
        if row.verdict is Verdict.MISMATCH:
            with TorchLog():  # of what explains it
                failure = self._failure(row, check, outcomes, shrink)
            return replace(row, failure=replace(failure, log=log.text))
        return row

    def _not_a_function(self, outcomes: Sequence[Outcome]) -> str | None:
        """Why nobody can disagree with the oracle at the sample that decides: it is no function."""
        trial = _decider(outcomes).trial
        return not_a_function(trial.oracle, trial.sample)

    def trial_at(self, check: str, sample: Sample) -> Trial:
        """A trial of the candidate at a sample, under a check of this name."""
        self.docket.on_trial(self._blank(check), sample)
        oracle = self.oracle.at(sample)
        constants = bridge.constants(sample.constants, self.precision, self.docket.device)
        spec = self.docket.spec
        call = self.candidate.bound(constants, spec.params_at(sample.sizes), oracle.returns, spec.arranged)
        return Trial(call, oracle, sample, self.precision, self.docket.device)

    def _blank(self, check: str) -> Row:
        return _blank(self.docket, self.candidate.name, check, self.precision)

    def _inapplicable(self, check: Check) -> str:
        """Why a check has nothing to say about such a candidate or format; empty if it has."""
        if check.torch_only and self.candidate.framework != "torch":
            return check.torch_only if self.candidate.framework == "jax" else ABOUT_TENSORS
        return check.real_only if self.precision.is_complex else ""

    def _is_accepted(self, sample: Sample) -> bool:
        """Does the candidate's forward run at a sample? With an empty axis it may say no, as PyTorch's own often do."""
        if _has_entries(sample):
            return True
        trial = self.trial_at("forward", sample)
        try:
            outputs = trial.candidate.forward(trial.tensors(trial.primals))
            other = of_another_shape(trial, outputs)
        except Refused:
            return True  # the rows will say so, as of whatever else goes wrong
        except REFUSALS as error:
            self._note_refusal(sample, "refuses an empty axis", error)
            return False
        except KeyboardInterrupt:
            raise
        except BaseException:
            return True
        if other is not None:
            _add(self.skipped, f"{self.docket.spec.name}, sample {sample.name}: {self.candidate.name}: {other}")
        return other is None

    def _note_skipped(self, outcome: Outcome) -> None:
        sample, error = outcome.trial.sample, outcome.error
        if error is not None and outcome.end is End.EMPTY_REFUSED:
            self._note_refusal(sample, f"refuses an empty axis in {map_of(error) or 'a derivative'}", error)
        if error is not None and outcome.end is End.EMPTY_UNDEFINED:
            where = f"{self.docket.spec.name}, sample {sample.name}"
            _add(self.skipped, f"{where}: the oracle has no derivative there: {where_of(error)}")

    def _note_refusal(self, sample: Sample, refusal: str, error: BaseException) -> None:
        """Say that a sample is not judged; once, if the same error comes out of several maps or formats."""
        start, end = f"{self.docket.spec.name}, sample {sample.name}: {self.candidate.name} ", f": {first_line(error)}"
        if not any(line.startswith(start) and line.endswith(end) for line in self.skipped):
            self.skipped.append(f"{start}{refusal}{end}")

    def _concluded(self, row: Row, outcomes: Sequence[Outcome], bounded: bool) -> Row:
        """A row with its verdict, and the reason for it; `bounded`: has anything that was compared a bound?"""
        verdict, outcome = deciding(outcomes)
        if verdict is Verdict.MISMATCH:
            return replace(row, verdict=verdict)
        if outcome is not None and outcome.error is not None:
            if isinstance(outcome.error, Refused):
                declared = outcome.error.declared and self.candidate.limits is None
                return replace(row, verdict=verdict, reason=str(outcome.error), listed=declared, declared=declared)
            reason = str(outcome.error)
            if verdict is Verdict.ERROR:
                reason = with_remedy(f"{where_of(outcome.error)} [{title(outcome.trial.sample)}]")
            return replace(row, verdict=verdict, reason=reason)
        inapplicable = [str(o.error) for o in outcomes if o.end is End.INAPPLICABLE]
        if inapplicable and all(o.end is not End.COMPLETE for o in outcomes):
            return replace(row, verdict=Verdict.SKIPPED, reason=inapplicable[0])
        if row.comparisons == 0:
            return replace(row, verdict=Verdict.UNRESOLVED, reason=_nothing(self.precision)[not bounded])
        return row

    def _failure(self, row: Row, check: Check, outcomes: Sequence[Outcome], shrink: bool) -> Failure:
        """What is wrong at the sample that decides; and at another one, if the candidate raises an exception there."""
        outcome = _decider(outcomes)
        findings = [*outcome.findings, *([raised(outcome, check.name)] if outcome.end is End.RAISED else [])]
        failure = self._told(row, outcome.trial, findings)
        elsewhere = next((o for o in outcomes if o.end is End.RAISED), outcome)
        if outcome.wrong and elsewhere is not outcome:
            result = wrong_result(raised(elsewhere, check.name), self.docket.spec, check.name, [])
            where = "; ".join(part for part in (f"at {title(elsewhere.trial.sample)}", result.circumstance) if part)
            failure = replace(failure, wrong=(*failure.wrong, replace(result, circumstance=where)))
        if not shrink:
            return failure
        lost = list(failure.unexplained)
        smaller = self._with_smallest if outcome.wrong else self._with_smallest_sizes
        failure = explain("shrinking", lambda: smaller(failure, check, outcome, lost), lost) or failure
        return replace(failure, unexplained=tuple(lost))

    def _told(self, row: Row, trial: Trial, findings: list[Finding]) -> Failure:
        """What a failing row found on a trial, and how to judge it again."""
        lost: list[str] = []
        failure = explain("the diagnosis", lambda: explained(row, trial, findings), lost)
        if failure is None:
            failure = described(row, trial.sample, [f for f in findings if not f.holds], self.docket.spec)
        replay = explain("how to replay it", lambda: self.docket.replay(row), lost)
        return replace(failure, replay=replay, unexplained=(*failure.unexplained, *lost))

    def _with_smallest(self, failure: Failure, check: Check, outcome: Outcome, lost: list[str]) -> Failure:
        """With the smallest input that fails, and with what a reproducer of it needs."""
        docket, trial_at, sample = self.docket, partial(self.trial_at, check.name), outcome.trial.sample
        found = fails_at(docket.spec, trial_at, check, sample, outcome.findings, docket.deadline)
        if found is None:  # it does not fail again, or nothing is to be shrunk
            return failure
        trial, wrong = found
        smallest = smallest_of(failure, trial, wrong, lost)
        position = next(i for i, other in enumerate(docket.candidates) if other is self.candidate)
        make = partial(Reproducer, docket.spec, self.candidate, position, check, trial, wrong, docket.case)
        return replace(failure, smallest=smallest, evidence=explain("the reproducer", make, lost))

    def _with_smallest_sizes(self, failure: Failure, check: Check, outcome: Outcome, lost: list[str]) -> Failure:
        """With the smallest sizes at which the candidate raises the same exception."""
        trial_at = partial(self.trial_at, check.name)
        smallest = raises_at(self.docket.spec, trial_at, check, outcome, self.docket.deadline)
        if smallest is None:
            return failure
        result = wrong_result(raised(smallest, check.name), self.docket.spec, check.name, lost)
        return replace(failure, smallest=Smallest(dict(smallest.trial.sample.sizes), {}, result))


def _decider(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome that decides a verdict that is none of PASS."""
    _, outcome = deciding(outcomes)
    assert outcome is not None
    return outcome
