"""The court's session: every candidate x check x dtype, one row each, as soon as it is known."""

from __future__ import annotations

import math
import re
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parity_tests.harness import bridge, diagnosis
from parity_tests.harness.candidate import BadOutput, Candidate, NotBuilt, Refused
from parity_tests.harness.certificate import certify
from parity_tests.harness.checks import Check
from parity_tests.harness.findings import Comparison, Convention, Finding, NotApplicable, Verdict
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numerics import pinned
from parity_tests.harness.oracle import Oracle, OracleError
from parity_tests.harness.precision import FLOAT64, Precision
from parity_tests.harness.report import ORACLE, Failure, Report, Row, Smallest, WrongResult
from parity_tests.harness.reproducer import Reproducer
from parity_tests.harness.rounding import NoRule, NotFloat64
from parity_tests.harness.samples import Sample, samples
from parity_tests.harness.shrink import TrialAt, entries, fails_at, raises_at
from parity_tests.harness.spec import OpSpec
from parity_tests.harness.taylor import RIGHT, taylor_rate
from parity_tests.harness.trial import Trial

Replay = Callable[[Row], str]
NOTHING_TOLD = "nothing was compared that an answer of zeros would fail"


@dataclass(frozen=True)
class Docket:
    """What is to be judged."""

    spec: OpSpec
    candidates: Sequence[Candidate | JaxCandidate | NotBuilt]
    checks: Sequence[Check]
    precisions: Sequence[Precision]
    device: str
    seed: int
    replay: Replay
    case: Path | None = None  # the file that defines spec and candidates, for reproducers
    samples: Callable[[OpSpec, int], Iterable[Sample]] = samples
    deadline: float = math.inf  # of time.monotonic, for shrinking

    @property
    def certificates(self) -> tuple[str, ...]:
        """The oracle's maps that the checks rely on."""
        needed = {name for check in self.checks for name in check.maps}
        return tuple(name for name in ORDERS if name in needed)

    @property
    def present(self) -> list[Candidate | JaxCandidate]:
        """The candidates that can be called."""
        return [candidate for candidate in self.candidates if not isinstance(candidate, NotBuilt)]

    @property
    def length(self) -> int:
        """The number of rows that `judge` yields."""
        return len(self.certificates) + len(self.present) * sum(len(self.checks_in(p)) for p in self.precisions)

    def checks_in(self, precision: Precision) -> list[Check]:
        """The checks that are run in a format."""
        return [check for check in self.checks if precision is self.precisions[0] or not check.one_dtype]


def judge(docket: Docket, report: Report) -> Iterator[Row]:
    """Certify the oracle, then judge every candidate; a map without a certificate judges nobody.

    Each row is added to the report and yielded as soon as it is known; who is not built is noted first.

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
    cases = list(docket.samples(docket.spec, docket.seed))
    with pinned(docket.device):
        oracle = Oracle(docket.spec, cases[0])
        cases = [sample for sample in cases if is_defined(oracle, sample, skipped)]
    uncertified: dict[str, str] = {}
    for name in docket.certificates:
        with pinned(docket.device):
            row = _certificate(oracle, name, cases, docket)
        if not row.passed:
            uncertified[name] = row.reason or "the witnesses disagree"
        yield row
    for candidate in docket.present:
        failed: set[str] = set()  # shrunk is the first dtype of each, unless it rests on another
        for precision in docket.precisions:
            with pinned(docket.device):
                accepted = [s for s in cases if _is_accepted(candidate, oracle, s, precision, docket, skipped)]
            for check in docket.checks_in(precision):
                blank = _blank(docket, candidate.name, check.name, precision)
                lacking = [name for name in check.maps if name in uncertified]
                if lacking:
                    reason = f"the oracle's {lacking[0]} has no certificate: {uncertified[lacking[0]]}"
                    yield replace(blank, verdict=Verdict.UNRESOLVED, reason=reason)
                    continue
                with pinned(docket.device):
                    shrink = failed.isdisjoint({check.name, *check.rests_on}) and check.name not in (
                        candidate.limits or {}
                    )
                    row = _row(candidate, oracle, check, precision, accepted, blank, docket, shrink)
                    if row.verdict in (Verdict.MISMATCH, Verdict.ERROR):
                        failed.add(check.name)
                    yield _held_to_limits(row, candidate)


def is_defined(oracle: Oracle, sample: Sample, skipped: list[str]) -> bool:
    """Does the operator have a value and a derivative at a sample?

    Where an axis is empty it may have none (a mean, a maximum), and where one has a single entry (a variance).
    """
    empty = 0 in sample.sizes.values()
    try:
        oracle = oracle.at(sample)
        oracle.check(sample)
        if not empty and 1 not in sample.sizes.values():
            return True
        primals = sample.primals(oracle.inputs)
        shapes = oracle.shapes(tuple(x.shape for x in primals))
        cotangents = [np.ones(shapes[slot.like]) for slot in oracle.map("vjp").arguments[len(primals) :]]
        for name, args in (("forward", primals), ("vjp", [*primals, *cotangents])):
            if not all(np.isfinite(y).all() for y, _ in oracle.evaluate(name, args, FLOAT64)):
                reason = f"the oracle's {'value' if name == 'forward' else 'derivative'} there is not finite"
                break
        else:
            return True
    except NoRule:
        return True  # the rows will say so
    except Exception as error:
        if not empty or isinstance(error, NotFloat64):
            raise
        reason = str(error).splitlines()[0]
    skipped.append(f"{oracle.spec.name}, sample {sample.name}: {reason}")
    return False


def _is_accepted(
    candidate: Candidate, oracle: Oracle, sample: Sample, precision: Precision, docket: Docket, skipped: list[str]
) -> bool:
    """Does the candidate's forward run at a sample? With an empty axis it may say no, as PyTorch's own often do."""
    if 0 not in sample.sizes.values():
        return True
    call = candidate.bound(bridge.constants(sample.constants, precision, docket.device), docket.spec.params)
    trial = Trial(call, oracle.at(sample), sample, precision, docket.device)
    try:
        call.forward(trial.tensors(trial.primals))
    except (BadOutput, Refused):
        return True  # the rows will say so
    except (RuntimeError, ValueError, IndexError) as error:
        line = f"{oracle.spec.name}, sample {sample.name}: {candidate.name} refuses an empty axis: {_first_line(error)}"
        if line not in skipped:
            skipped.append(line)
        return False
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
        return replace(row, verdict=Verdict.SKIPPED, reason=check.torch_only)
    ran = False

    def trial_at(sample: Sample) -> Trial:
        call = candidate.bound(bridge.constants(sample.constants, precision, docket.device), docket.spec.params)
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
            return ended(verdict=Verdict.ERROR, reason=f"{error} [{_title(sample)}]")
        except BaseException as error:  # sys.exit(), too
            # PyTorch itself looks at the shape of what a backward or a jvp returns.
            wrong_shape = re.search(
                "returned an invalid gradient|forward gradient that has a different size", str(error)
            )
            verdict = Verdict.MISMATCH if wrong_shape else Verdict.ERROR
            title = _title(sample)
            row = ended(verdict=verdict)
            smallest = raises_at(docket.spec, trial_at, check, sample, error, docket.deadline) if shrink else None
            if smallest is not None:
                title += f"; smallest {_sizes(smallest)}"
            return replace(row, reason=f"{_where(error)} [{title}]")
        ran, row = True, _with(row, findings)
        if not all(finding.holds for finding in findings):
            row = ended(verdict=Verdict.MISMATCH)
            failure = _failure(row, trial, findings, docket)
            if shrink:
                failure = _with_smallest(failure, candidate, trial_at, check, sample, findings, docket)
            return replace(row, failure=failure)
    if inapplicable and not ran:
        return ended(verdict=Verdict.SKIPPED, reason=inapplicable[0])
    if row.comparisons == 0:
        return ended(verdict=Verdict.UNRESOLVED, reason=NOTHING_TOLD)
    return ended()


def _certificate(oracle: Oracle, name: str, cases: Iterable[Sample], docket: Docket) -> Row:
    start, row = time.perf_counter(), _blank(docket, ORACLE, name, FLOAT64)
    for sample in cases:
        if sample.first_order_only:
            continue
        try:
            findings = list(certify(oracle.at(sample), name, sample))
        except NoRule as error:
            return replace(row, verdict=Verdict.UNRESOLVED, reason=str(error))
        except (NotFloat64, OracleError):
            raise
        except Exception as error:
            return replace(row, verdict=Verdict.ERROR, reason=f"{_where(error)} [{_title(sample)}]")
        row = _with(row, findings)
        wrong = [f for f in findings if not f.holds]
        if wrong:
            row = replace(row, verdict=Verdict.MISMATCH, reason=_sentence(wrong[0]))
            results = tuple(_wrong_result(f, None, oracle.spec, name) for f in wrong)
            row = replace(row, failure=_bare_failure(row, sample, results))
            break
    else:
        if row.comparisons == 0:
            row = replace(row, verdict=Verdict.UNRESOLVED, reason="autodiff of the primal is finite at no sample")
    return replace(row, seconds=time.perf_counter() - start)


def _with(row: Row, findings: list[Finding]) -> Row:
    worst = max((f.error_over_bound for f in findings if isinstance(f, Comparison)), default=0.0)
    count = sum(f.evidence for f in findings)
    told = [f"{f.label} ({f.circumstance}) is {f.text}" for f in findings if isinstance(f, Convention)]
    return replace(
        row,
        error_over_bound=max(row.error_over_bound, worst),
        comparisons=row.comparisons + count,
        conventions=(*row.conventions, *told),
    )


def _held_to_limits(row: Row, candidate: Candidate | JaxCandidate) -> Row:
    """A listed limit must fail; what fails must not be excused otherwise."""
    reason = (candidate.limits or {}).get(row.check)
    if reason is None:
        return row
    if row.verdict is Verdict.PASS:
        return replace(row, verdict=Verdict.MISMATCH, reason=f"listed as a limit ({reason}), but it passes: unlist it")
    if row.verdict in (Verdict.UNRESOLVED, Verdict.SKIPPED):
        return row
    found = "" if row.verdict is Verdict.UNSUPPORTED else f" (found: {row.verdict})"
    return replace(row, verdict=Verdict.UNSUPPORTED, listed=True, reason=reason + found, failure=None)


# Failures, told.


def _failure(row: Row, trial: Trial, findings: list[Finding], docket: Docket) -> Failure:
    wrong = [f for f in findings if not f.holds]
    worst: dict[str, Finding] = {}
    for finding in wrong:  # the same result may be wrong under many circumstances: tell the first
        worst.setdefault(finding.label, finding)
    comparisons = [f for f in findings if isinstance(f, Comparison)]
    results = []
    for finding in worst.values():
        result = _wrong_result(finding, None, docket.spec, row.check)
        if isinstance(finding, Comparison):
            looks_like = diagnosis.looks_like(trial, comparisons, finding)
            if looks_like is not None and looks_like == f"{finding.label} = 0":
                looks_like += _not_differentiable(trial)
            result = replace(result, pattern=diagnosis.pattern(finding, trial), looks_like=looks_like)
        results.append(result)
    right = {f.label: f for f in comparisons if f.label not in worst and f.evidence}
    agrees = tuple(f"{label} ({f.error_over_bound:.2g} of its bound)" for label, f in right.items())
    failure = _bare_failure(row, trial.sample, tuple(results))
    return replace(failure, agrees=agrees, judge=_verdict_of_taylor(row, trial), replay=docket.replay(row))


def _not_differentiable(trial: Trial) -> str:
    """Why a gradient is zero, if the reason is that an output does not come from the inputs by any derivative."""
    outputs = trial.candidate.record(trial.tensors(trial.arguments("forward"))).outputs
    detached = [name for name, y in zip(trial.oracle.outputs, outputs, strict=True) if y.grad_fn is None]
    if not detached:
        return ""
    names = " and ".join(detached)
    verb = "has" if len(detached) == 1 else "have"
    return f": the candidate is not differentiable: {names} {verb} no grad_fn (detached, or computed under no_grad)"


def _with_smallest(
    failure: Failure,
    candidate: Candidate,
    trial_at: TrialAt,
    check: Check,
    sample: Sample,
    findings: list[Finding],
    docket: Docket,
) -> Failure:
    """With the smallest input that fails, and with what a reproducer of it needs."""
    found = fails_at(docket.spec, trial_at, check, sample, findings, docket.deadline)
    if found is None:  # it does not fail again, or nothing is to be shrunk
        return failure
    trial, wrong = found
    smallest = Smallest(
        dict(trial.sample.sizes),
        entries(trial),
        replace(_wrong_result(wrong, None, docket.spec, check.name), heat=None),
    )
    position = next(i for i, other in enumerate(docket.candidates) if other is candidate)
    evidence = Reproducer(docket.spec, candidate, position, check, trial, wrong, docket.case)
    return replace(failure, smallest=smallest, evidence=evidence)


def _bare_failure(row: Row, sample: Sample, wrong: tuple[WrongResult, ...]) -> Failure:
    return Failure(
        op=row.op,
        candidate=row.candidate,
        check=row.check,
        dtype=row.dtype,
        device=row.device,
        sample=sample.name,
        why=sample.why,
        sizes=dict(sample.sizes),
        seed=sample.seed,
        wrong=wrong,
    )


def _wrong_result(finding: Finding, looks_like: str | None, spec: OpSpec, check: str) -> WrongResult:
    if not isinstance(finding, Comparison):
        return WrongResult(finding.label, finding.violation, finding.circumstance)
    # An entry that cannot be judged, with an infinite bound, is none of the wrong ones.
    excess = np.where(finding.wrong, finding.error, -np.inf) - np.where(finding.wrong, finding.bound, 0.0)
    index = tuple(int(i) for i in np.unravel_index(int(excess.argmax()), excess.shape))
    equation = spec.equations.get(f"{check}/{finding.label}") or (
        spec.equations.get(finding.label) if len(ORDERS.get(check, ())) <= 1 else None
    )
    return WrongResult(
        label=finding.label,
        pattern=diagnosis.pattern(finding),
        circumstance=finding.circumstance,
        index=index,
        candidate=float(finding.candidate[index]),
        oracle=float(finding.oracle[index]),
        error=float(finding.error[index]),
        allowed=float(finding.bound[index]),
        looks_like=looks_like,
        equation=equation,
        heat=_heat(finding),
    )


def _heat(finding: Comparison) -> tuple[tuple[float, ...], ...]:
    """Error over bound of every entry, with leading axes as rows; of at most 48 x 48 blocks, the worst in each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(finding.error == 0, 0.0, finding.error / finding.bound)
    matrix = np.atleast_2d(ratio.reshape(-1, ratio.shape[-1]) if ratio.ndim else ratio)
    for axis in (0, 1):
        edges = np.unique(np.linspace(0, matrix.shape[axis], min(matrix.shape[axis], 48), endpoint=False, dtype=int))
        matrix = np.maximum.reduceat(matrix, edges, axis=axis)
    return tuple(tuple(float(x) for x in row) for row in matrix)


def _verdict_of_taylor(row: Row, trial: Trial) -> str | None:
    """Who is right, by the Taylor remainders of both sides' own functions in float64; None where that says nothing."""
    name = row.check
    if name not in BASES:
        return None
    try:
        ours, theirs = (_rate(trial, name, side) for side in ("oracle", "candidate"))
    except Exception as error:
        return f"no Taylor rate in float64: {type(error).__name__}: {_first_line(error)}"
    rates = f"Taylor rate in float64: oracle {ours:.2f}, candidate {theirs:.2f}"
    if ours > RIGHT and theirs <= RIGHT:
        return f"{rates} -> the oracle is right"
    if ours > RIGHT and row.dtype != "float64":
        return f"{rates} -> both formulas are right in float64; the candidate's {row.dtype} is not"
    if ours > RIGHT:
        return f"{rates} -> each is the derivative of its own function: compare the functions first (see {BASES[name]})"
    return f"{rates} -> the oracle is wrong" if theirs > RIGHT else f"{rates} -> neither is right"


def _rate(trial: Trial, name: str, side: str) -> float:
    exact = replace(trial, precision=FLOAT64)
    args, results = exact.arguments(name), trial.oracle.map(name).results
    shapes = trial.oracle.shapes(tuple(x.shape for x in exact.primals))
    weights = [
        trial.oracle.directed(slot.like, trial.sample.draw(f"taylor {slot.label}", shapes[slot.like]))
        for slot in results
    ]

    def evaluate(which, point):
        if side == "oracle":
            return [value for value, _ in exact.truth(which, point)]
        return [None if y is None else bridge.to_numpy(y) for y in exact.evaluate(which, point)]

    return taylor_rate(trial.oracle, name, evaluate, args, weights)


def _sizes(sample: Sample) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in sample.sizes.items())


def _title(sample: Sample) -> str:
    sizes = _sizes(sample)
    return f"{sample.name} ({sizes})" if sizes else sample.name


def _sentence(finding: Finding) -> str:
    if isinstance(finding, Comparison):
        times = finding.error_over_bound
        amount = f"{times:.3g} times what rounding explains" if math.isfinite(times) else "where it must be exact"
        return f"{finding.label}: {finding.circumstance}: differs by {amount}"
    return f"{finding.label} {finding.violation}"


def _where(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {_first_line(error)} (at {last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")
