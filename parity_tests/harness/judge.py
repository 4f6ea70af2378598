"""The court's session: every candidate x check x dtype, one row each, as soon as it is known."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from parity_tests.harness import bridge
from parity_tests.harness.candidate import BadOutput, Candidate, NotBuilt, Refused
from parity_tests.harness.checks import Check
from parity_tests.harness.court import Court, is_beyond, only_real, sizes_of, title, with_findings
from parity_tests.harness.docket import Docket
from parity_tests.harness.errors import first_line, where_of
from parity_tests.harness.explaining import explain
from parity_tests.harness.failures import described, explained, smallest_of
from parity_tests.harness.findings import Comparison, Finding, NotApplicable, Verdict
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.harness.numerics import pinned
from parity_tests.harness.oracle import Oracle, OracleError
from parity_tests.harness.precision import Precision
from parity_tests.harness.report import ORACLE, Failure, Report, Row
from parity_tests.harness.reproducer import Reproducer
from parity_tests.harness.resume import key_of
from parity_tests.harness.rounding import NoRule, NotFloat64
from parity_tests.harness.samples import Sample
from parity_tests.harness.shrink import TrialAt, fails_at, raises_at
from parity_tests.harness.trial import Trial

ABOUT_TENSORS = "it is about PyTorch's tensors and what PyTorch does with them"
NOTHING_TOLD = "nothing was compared that an answer of zeros would fail"
_NO_BOUND = (
    "no result has an error bound: an intermediate of the oracle may exceed the format's largest number, {largest:g}, "
    "or be undefined to rounding; give a primal without it, or leave the format out (OpSpec.dtypes)"
)


def judge(docket: Docket, report: Report) -> Iterator[Row]:
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
        skipped.extend(line for line in bench.skipped if line not in skipped)
        uncertified[kind] = {}
        for name in docket.certificates:
            key = (ORACLE, name, kind.name)
            row = known[key] if key in known else bench.certificate(name)
            if not row.passed:
                uncertified[kind][name] = row.reason or "the witnesses disagree"
            if key not in known:
                yield row
    for candidate in docket.present:
        failed: set[str] = set()  # shrunk is the first dtype of each, unless it rests on another
        told: set[str] = set()  # the checks that have compared something, in one of the formats so far
        for precision in docket.precisions:
            kind = precision.double
            checks = []
            for check in docket.checks_in(precision):
                row = known.get((candidate.name, check.name, precision.name))
                if row is None:
                    checks.append(check)
                    continue
                failed |= {check.name} if row.verdict in (Verdict.MISMATCH, Verdict.ERROR) else set()
                told |= {check.name} if row.comparisons else set()
            given_up = docket.earlier.given_up.get(candidate.name)
            if given_up is not None:
                for check in checks:
                    blank = _blank(docket, candidate.name, check.name, precision)
                    yield replace(blank, verdict=Verdict.UNRESOLVED, reason=given_up)
                continue
            if not checks:
                continue
            if kind not in uncertified:
                for check in checks:
                    blank = _blank(docket, candidate.name, check.name, precision)
                    yield replace(blank, verdict=Verdict.SKIPPED, reason=only_real(docket.spec, kind) or "")
                continue
            oracle = court.bench(kind).oracle
            cases = [s for s in court.bench(kind).cases if not docket.earlier.avoids(candidate.name, s.name)]
            with pinned(docket.device):
                accepted = [s for s in cases if _is_accepted(candidate, oracle, s, precision, docket, skipped)]
                beyond = [s for s in accepted if is_beyond(oracle.at(s), s, precision)]
            none_left = all(s in beyond for s in accepted if _has_entries(s))
            lines = [] if none_left else [f"{docket.spec.name}, sample {s.name}: {_beyond(precision)}" for s in beyond]
            skipped.extend(line for line in lines if line not in skipped)
            for check in checks:
                blank = _blank(docket, candidate.name, check.name, precision)
                lacking = [name for name in check.maps if name in uncertified[kind]]
                if lacking:
                    reason = f"the oracle's {lacking[0]} has no certificate: {uncertified[kind][lacking[0]]}"
                    yield replace(blank, verdict=Verdict.UNRESOLVED, reason=reason)
                    continue
                with pinned(docket.device):
                    shrink = (
                        failed.isdisjoint({check.name, *check.rests_on})
                        and check.name not in (candidate.limits or {})
                        and candidate.name not in docket.earlier.unshrunk
                    )
                    row = _row(candidate, oracle, check, precision, accepted, blank, docket, shrink)
                    if row.verdict in (Verdict.MISMATCH, Verdict.ERROR):
                        failed.add(check.name)
                    if row.comparisons:
                        told.add(check.name)
                    elif row.verdict is Verdict.UNRESOLVED and beyond and none_left:
                        # In a format without its values an operator does not exist; elsewhere it has been judged.
                        verdict = Verdict.SKIPPED if check.name in told else Verdict.UNRESOLVED
                        row = replace(row, verdict=verdict, reason=f"at every sample {_beyond(precision)}")
                    elif row.reason in _nothing(precision) and check.generic and check.name in told:
                        # A wider format has told something at the few samples that the check looks at.
                        row = replace(row, verdict=Verdict.SKIPPED)
                    elif row.reason in _nothing(precision) and docket.earlier.avoided.get(candidate.name):
                        where = ", ".join(sorted(docket.earlier.avoided[candidate.name]))
                        row = replace(row, reason=f"{row.reason}; it is not called any more at {where}")
                    yield held_to_limit(row, (candidate.limits or {}).get(row.check))


def _nothing(precision: Precision) -> tuple[str, str]:
    """Why a row may have compared nothing."""
    return NOTHING_TOLD, _NO_BOUND.format(largest=precision.largest)


def _has_entries(sample: Sample) -> bool:
    return 0 not in sample.sizes.values()


def _beyond(precision: Precision) -> str:
    return f"all values of the oracle exceed the largest number of {precision.name}, {precision.largest:g}"


def _is_accepted(
    candidate: Candidate | JaxCandidate,
    oracle: Oracle,
    sample: Sample,
    precision: Precision,
    docket: Docket,
    skipped: list[str],
) -> bool:
    """Does the candidate's forward run at a sample? With an empty axis it may say no, as PyTorch's own often do."""
    if 0 not in sample.sizes.values():
        return True
    docket.on_trial(_blank(docket, candidate.name, "forward", precision), sample)
    call = candidate.bound(
        bridge.constants(sample.constants, precision, docket.device), docket.spec.params_at(sample.sizes)
    )
    trial = Trial(call, oracle.at(sample), sample, precision, docket.device)
    try:
        call.forward(trial.tensors(trial.primals))
    except Refused:
        return True  # the rows will say so, as of whatever else goes wrong
    except (RuntimeError, ValueError, IndexError) as error:
        line = f"{oracle.spec.name}, sample {sample.name}: {candidate.name} refuses an empty axis: {first_line(error)}"
        if line not in skipped:
            skipped.append(line)
        return False
    except KeyboardInterrupt:
        raise
    except BaseException:
        return True
    return True


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
    sample, candidate = next(iter(docket.samples(docket.spec, docket.seed))), docket.present[0]
    blank = _blank(docket, candidate.name, check.name, precision)
    with pinned(docket.device):
        report.rows.append(_row(candidate, Oracle(docket.spec, sample), check, precision, [sample], blank, docket))
    return report.rows[-1]


def _row(
    candidate: Candidate | JaxCandidate,
    oracle: Oracle,
    check: Check,
    precision: Precision,
    cases: Iterable[Sample],
    blank: Row,
    docket: Docket,
    shrink: bool = False,
) -> Row:
    start, row, inapplicable = time.perf_counter(), blank, []
    if check.torch_only and candidate.framework != "torch":
        reason = check.torch_only if candidate.framework == "jax" else ABOUT_TENSORS
        return replace(row, verdict=Verdict.SKIPPED, reason=reason)
    if check.real_only and precision.is_complex:
        return replace(row, verdict=Verdict.SKIPPED, reason=check.real_only)
    ran = bounded = False

    def trial_at(sample: Sample) -> Trial:
        docket.on_trial(blank, sample)
        call = candidate.bound(
            bridge.constants(sample.constants, precision, docket.device), docket.spec.params_at(sample.sizes)
        )
        return Trial(call, oracle.at(sample), sample, precision, docket.device)

    def ended(**fields: Any) -> Row:
        return replace(row, seconds=time.perf_counter() - start, **fields)

    for sample in cases:
        if not check.looks_at(sample):
            continue
        trial = trial_at(sample)
        findings: list[Finding] = []
        try:
            for finding in check.run(trial):
                findings.append(finding)  # one by one: what comes before a refusal is kept
        except NotApplicable as reason:
            inapplicable.append(str(reason))
            continue
        except Refused as refusal:
            if all(finding.holds for finding in findings):  # else it is wrong in what it does support
                listed = refusal.declared and candidate.limits is None
                return ended(verdict=Verdict.UNSUPPORTED, reason=str(refusal), listed=listed)
        except (NoRule, NotFloat64, OracleError) as error:
            return ended(verdict=Verdict.UNRESOLVED, reason=str(error))
        except KeyboardInterrupt:
            raise
        except BadOutput as error:
            return ended(verdict=Verdict.ERROR, reason=f"{error} [{title(sample)}]")
        except BaseException as error:  # sys.exit(), too
            # PyTorch itself looks at the shape of what a backward or a jvp returns.
            wrong_shape = re.search(
                "returned an invalid gradient|forward gradient that has a different size", str(error)
            )
            verdict = Verdict.MISMATCH if wrong_shape else Verdict.ERROR
            at = title(sample)
            row = ended(verdict=verdict)
            lost: list[str] = []
            if shrink:
                raising = partial(raises_at, docket.spec, trial_at, check, sample, error, docket.deadline)
                smallest = explain("shrinking", raising, lost)
                at += "" if smallest is None else f"; smallest {sizes_of(smallest)}"
            return replace(row, reason="; ".join([f"{where_of(error)} [{at}]", *lost]))
        ran, row = True, with_findings(row, findings)
        bounded |= any(not isinstance(f, Comparison) or np.isfinite(f.bound).any() for f in findings)
        if not all(finding.holds for finding in findings):
            row = ended(verdict=Verdict.MISMATCH)
            failure = _failure(row, trial, findings, docket)
            if shrink:
                failure = _with_smallest(failure, candidate, trial_at, check, sample, findings, docket)
            return replace(row, failure=failure)
    if inapplicable and not ran:
        return ended(verdict=Verdict.SKIPPED, reason=inapplicable[0])
    if row.comparisons == 0:
        reason = _nothing(precision)[not bounded]
        return ended(verdict=Verdict.UNRESOLVED, reason=reason)
    return ended()


def held_to_limit(row: Row, reason: str | None) -> Row:
    """A check that is listed as a limit, for this reason, must fail; what fails must not be excused otherwise."""
    if reason is None:
        return row
    if row.verdict is Verdict.PASS:
        return replace(row, verdict=Verdict.MISMATCH, reason=f"listed as a limit ({reason}), but it passes: unlist it")
    if row.verdict in (Verdict.UNRESOLVED, Verdict.SKIPPED):
        return row
    found = "" if row.verdict is Verdict.UNSUPPORTED else f" (found: {row.verdict})"
    return replace(row, verdict=Verdict.UNSUPPORTED, listed=True, reason=reason + found, failure=None)


def _failure(row: Row, trial: Trial, findings: list[Finding], docket: Docket) -> Failure:
    """What a failing row found on a trial, and how to judge it again."""
    lost: list[str] = []
    failure = explain("the diagnosis", lambda: explained(row, trial, findings), lost)
    if failure is None:
        failure = described(row, trial.sample, [f for f in findings if not f.holds], docket.spec)
    replay = explain("how to replay it", lambda: docket.replay(row), lost)
    return replace(failure, replay=replay, unexplained=(*failure.unexplained, *lost))


def _with_smallest(
    failure: Failure,
    candidate: Candidate | JaxCandidate,
    trial_at: TrialAt,
    check: Check,
    sample: Sample,
    findings: list[Finding],
    docket: Docket,
) -> Failure:
    """With the smallest input that fails, and with what a reproducer of it needs."""
    lost = list(failure.unexplained)

    def told() -> Failure | None:
        found = fails_at(docket.spec, trial_at, check, sample, findings, docket.deadline)
        if found is None:  # it does not fail again, or nothing is to be shrunk
            return None
        trial, wrong = found
        smallest = replace(failure, smallest=smallest_of(failure, trial, wrong, lost))
        position = next(i for i, other in enumerate(docket.candidates) if other is candidate)
        make = partial(Reproducer, docket.spec, candidate, position, check, trial, wrong, docket.case)
        return replace(smallest, evidence=explain("the reproducer", make, lost))

    with_smallest = explain("shrinking", told, lost) or failure
    return replace(with_smallest, unexplained=tuple(lost))
