"""The oracle before any candidate is judged: its samples, and the certificates of its maps."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness.diagnosis.failures import described
from parity_tests.harness.exceptions.errors import described as described_error
from parity_tests.harness.exceptions.errors import first_line, where_of
from parity_tests.harness.findings import Comparison, Finding, Verdict
from parity_tests.harness.judging import remedies
from parity_tests.harness.judging.kept_certificates import KeptCertificates, why_not_trusted
from parity_tests.harness.judging.row_findings import with_findings
from parity_tests.harness.judging.titles import title
from parity_tests.harness.maps import BASES
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.certificate import certify
from parity_tests.harness.oracle.certificate_at_ties import SpecialPoints
from parity_tests.harness.oracle.defined import why_undefined
from parity_tests.harness.oracle.drawn_values import DrawnValues
from parity_tests.harness.oracle.free_axes import check_free_axes
from parity_tests.harness.oracle.names_of_results import check_names_of_results
from parity_tests.harness.oracle.oracle import Oracle, OracleError
from parity_tests.harness.oracle.repeats import why_not_a_function
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.report.results import ORACLE, Note, Row
from parity_tests.harness.specs import loops
from parity_tests.harness.specs.domains import COMPLEX_NUMBERS, REAL
from parity_tests.harness.specs.samples import Sample, samples
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.specs.spec_kinds import MOST_ENTRIES

_LARGEST = 2**20  # entries, beyond which a sample is not worth its time
_TOO_LARGE = "an intermediate of the oracle has more than 2^20 entries"
_DRAWS, _EXAMPLES = 32, 3
_SURROGATE = {
    "vjp": "is a surrogate gradient (no derivative of the primal): compared with OpSpec.surrogate",
    "jvp": "is the transpose of a surrogate gradient (no derivative of the primal): compared with OpSpec.surrogate",
}


class Oracles:
    """An operator's oracles on a device, and the samples of a seed. It may try many candidates, one after the other."""

    def __init__(
        self, spec: OpSpec, device: str, seed: int, samples: Callable[[OpSpec, int], Iterable[Sample]] = samples
    ) -> None:
        self._spec, self._device = spec, device
        self._samples = functools.partial(samples, spec, seed)
        self._certified_oracles: dict[Precision, CertifiedOracle] = {}
        self._before: Oracles | None = None  # of another seed

    def certified_oracle(self, kind: Precision) -> CertifiedOracle:
        """Return the oracle that judges the formats of real numbers (float64), or those of complex ones (complex128).

        Raises:
            OracleError: the primal does not run, does not fit its signature, or is not a function of float64.
        """
        if kind not in self._certified_oracles:
            with drawing(self._spec):
                every = [sample.as_complex() if kind.is_complex else sample for sample in self._samples()]
            before = None if self._before is None else self._before.certified_oracle(kind)
            self._certified_oracles[kind] = CertifiedOracle(self._spec, self._device, kind, every, before)
        return self._certified_oracles[kind]

    def at_seed(self, seed: int) -> Oracles:
        """The same oracles at the samples of another seed, without tracing again.

        Nor is it certified again: its certificates are of the same maps.
        """
        oracles = Oracles(self._spec, self._device, seed, self._samples.func)
        oracles._before = self
        return oracles


_TO_DO = (
    "fix OpSpec(vjp=, jvp=) if they are given; else say where the primal has no derivative: kinks=, domains=, or "
    "surrogate= for a gradient that is meant to be none"
)


@dataclass(frozen=True)
class Certificate:
    """The verdict of the witnesses on one map of an oracle.

    Attributes:
        row: the verdict.
        notes: one for each sample at which a witness raised, and which says nothing therefore.
    """

    row: Row
    notes: tuple[Note, ...] = ()


class CertifiedOracle:
    """The oracle of one kind of numbers.

    Attributes:
        oracle: see `oracle.Oracle`.
        cases: the samples at which the operator is defined.
        notes: one for each of the others, with the reason; and one for entries that have no value.
        unusable: why the oracle can judge nobody; None if it can.
    """

    def __init__(
        self, spec: OpSpec, device: str, kind: Precision, every: Sequence[Sample], before: CertifiedOracle | None = None
    ) -> None:
        self._device, self._kind = device, kind
        self._certificates: dict[str, Certificate] = before._certificates if before else {}
        with pinned():
            whole = [sample for sample in every if sample.whole]  # at which it is not certified
            every = [sample for sample in every if not sample.whole]
            # Constants are part of what is traced, and are drawn by the seed.
            self.oracle = (
                before.oracle.without_cached_values() if before and not every[0].constants else Oracle(spec, every[0])
            )
            _check_memory(self.oracle, every[0])
            check_names_of_results(self.oracle)
            axes = every[0].sizes
            always_empty = tuple(a for a in axes if not any(s.sizes.get(a) for s in every))
            reasons = [why_not_judged(self.oracle, sample) for sample in every]
            defined = [sample for sample, reason in zip(every, reasons, strict=True) if reason is None]
            small_enough = (sample for sample, reason in zip(every, reasons, strict=True) if reason != _TOO_LARGE)
            self._values = DrawnValues.at(self.oracle, small_enough, always_empty)
            check_free_axes(self.oracle, defined)
            self.unusable = self._values.unusable() or self._why_not_a_function(every)
            self.notes = self._notes(every, reasons)
            self.cases = [
                _with_nonzero_gradients(self.oracle.at(sample), sample) if sample.generic else sample
                for sample in defined
            ]
        self._special_points = SpecialPoints(self.oracle, self.cases)
        self._kept = KeptCertificates(self.oracle, self.cases)
        if (why := why_not_trusted()) is not None:
            self.notes += (Note(why),)
        self.cases = [*self.cases, *whole]

    def _notes(self, every: Sequence[Sample], reasons: Sequence[str | None]) -> tuple[Note, ...]:
        if self._values.all_nan:
            return ()  # the reason of each row says it, once
        name, pairs = self.oracle.spec.name, zip(every, reasons, strict=True)
        lines = [f"{name}, sample {sample.name}: {reason}" for sample, reason in pairs if reason is not None]
        if self.unusable is None and (line := self._values.line()) is not None:
            lines.append(f"{name}: {line}")
        if (cut := loops.line(self.oracle.spec, every)) is not None:
            lines.append(f"{name}: {cut}")
        return tuple(map(Note, lines))

    def _why_not_a_function(self, every: Sequence[Sample]) -> str | None:
        """Why the primal is no function, by two samples; `candidate_rows.row_of` looks where a candidate disagrees."""
        for sample in [every[0], *(s for s in every[1:] if s.name == "long_axes")]:
            reason = not_a_function(self.oracle.at(sample), sample)
            if reason is not None:
                return reason
        return None

    def certificate(self, name: str) -> Certificate:
        """The certificate of one of the oracle's maps, computed once; none of the derivative of a map that has none.

        The witnesses of a derivative compare it with the map that it differentiates. Where that is wrong, as the 0 that
        JAX has for the derivative of a complex sign, they agree on the derivative of a wrong function.
        """
        if name not in self._certificates:
            blank = Row(self.oracle.spec.name, ORACLE, name, self._kind.name, self._device, Verdict.PASS, 0.0, 0)
            if self.unusable is not None:
                return Certificate(replace(blank, verdict=Verdict.UNRESOLVED, reason=self.unusable))
            if BASES.get(BASES[name]) and not (below := self.certificate(BASES[name]).row).passed:
                disagree = below.verdict is Verdict.MISMATCH
                reason = f"it differentiates {below.check}: {below.reason}" if disagree else below.reason
                return Certificate(replace(blank, verdict=Verdict.UNRESOLVED, reason=reason))
            with pinned():
                self._certificates[name] = self._kept_or_new(name, blank)
        return self._certificates[name]

    def _kept_or_new(self, name: str, blank: Row) -> Certificate:
        start = time.perf_counter()
        if (row := self._kept.read(blank)) is not None:
            return Certificate(_timed(row, start))
        new = _certificate(self.oracle, name, self.cases, self._special_points, blank, self._values)
        if not new.notes:
            self._kept.write(new.row)
        return new


def _check_memory(oracle: Oracle, sample: Sample) -> None:
    """Raise an OracleError if the primal makes an array beyond memory of the first sample's inputs."""
    entries = oracle.at(sample).largest_array(sample.shapes)
    if entries > MOST_ENTRIES:
        raise OracleError(
            f"{oracle.spec.name}: of inputs of shapes {', '.join(map(str, sample.shapes))} the primal makes an array "
            f"of {entries:,} entries, which is {entries * 8 / 2**30:,.3g} GiB of float64; at most {MOST_ENTRIES:,} "
            "can be judged: give smaller sizes"
        )


@contextlib.contextmanager
def drawing(spec: OpSpec) -> Iterator[None]:
    """A block that draws inputs: what a sampler raises there, or draws in a wrong shape, is the spec's fault.

    Raises:
        OracleError: in place of it.
    """
    try:
        yield
    except OracleError:
        raise
    except Exception as error:
        raise OracleError(f"{spec.name}: its inputs cannot be drawn: {described_error(error)}") from error


def only_real(spec: OpSpec, kind: Precision) -> str | None:
    """Why an operator cannot be judged at complex numbers; None if it can, or if these are none."""
    names, domains = spec.names, spec.drawn_from
    for name, domain in zip(names, domains, strict=True):
        if kind.is_complex and domain.differentiable and domain.unscaled not in (REAL, COMPLEX_NUMBERS):
            return f"the domain of {name} is {domain.name}, which has no complex numbers"
    return None


def why_not_judged(oracle: Oracle, sample: Sample) -> str | None:
    """Why a sample is left out: no value or derivative of the operator, or too large arrays; None if it is not.

    Where an axis is empty it may have none (a mean, a maximum), and where one has a single entry (a variance); at other
    sizes see `defined`.

    Raises:
        OracleError: the inputs cannot be drawn, or the primal does not run where no axis is empty.
        NotFloat64: the primal computes in a lower precision.
    """
    empty = sample.has_empty_axis
    if not empty:
        with drawing(oracle.spec):
            sample.primals(sample.differentiated(oracle.spec.names))
    try:
        oracle = oracle.at(sample)
        oracle.check(sample)
        if sample.first_order_only and oracle.largest_array(sample.shapes) > _LARGEST:
            return _TOO_LARGE
        if not empty and 1 not in sample.sizes.values():
            return _why_undefined(oracle, sample)
        primals = sample.primals(oracle.inputs)
        shapes = oracle.shapes(tuple(x.shape for x in primals))
        cotangents = [
            np.ones(shapes[slot.like], oracle.dtypes[slot.like]) for slot in oracle.map("vjp").arguments[len(primals) :]
        ]
        for name, args in (("forward", primals), ("vjp", [*primals, *cotangents])):
            if not all(np.isfinite(y).all() for y in oracle.values(name, args)):
                return f"the oracle's {'value' if name == 'forward' else 'derivative'} there is not finite"
    except NoRule:
        return None  # the rows will say so
    except Exception as error:
        if isinstance(error, NotFloat64) or (isinstance(error, OracleError) and not empty):
            raise
        if empty:
            return first_line(error) or type(error).__name__
    return None  # of what else goes wrong the rows will say so


def _why_undefined(oracle: Oracle, sample: Sample) -> str | None:
    try:
        return why_undefined(oracle, sample)
    except NotFloat64:
        raise
    except Exception:
        return None  # what goes wrong is told of each row


def _with_nonzero_gradients(oracle: Oracle, sample: Sample) -> Sample:
    """A sample whose first examples have gradients, if any have; a loss with a margin may have none by chance.

    The checks that look at one sample only have nothing to judge where all is zero.
    """
    if sample.fixed is not None:
        return sample
    having = (example for example in range(_DRAWS) if _has_gradient(oracle, sample, example))
    examples = tuple(itertools.islice(having, _EXAMPLES))
    return sample if examples == tuple(range(_EXAMPLES)) else replace(sample, examples=examples)


def _has_gradient(oracle: Oracle, sample: Sample, example: int) -> bool:
    try:
        return any(y.any() for y in oracle.values("vjp", oracle.arguments("vjp", sample, example)))
    except Exception:  # what goes wrong is told of each row
        return True


def not_a_function(oracle: Oracle, sample: Sample) -> str | None:
    """Why the oracle is no function, as it shows at a sample; None if it may be one."""
    try:
        return why_not_a_function(oracle, sample)
    except Exception:
        return None  # what goes wrong is told of each row


def overflows_everywhere(oracle: Oracle, sample: Sample, precision: Precision) -> bool:
    """True if every value of the operator at a sample is larger than the format's numbers.

    Of infinities, which every format has, it is not.
    """
    try:
        outputs = oracle.ask("forward", [precision.rounded(x) for x in sample.primals(oracle.inputs)], precision)
    except Exception:
        return False  # the rows will say so
    entries = np.concatenate([np.abs(y.value).ravel() for y in outputs])
    return entries.size > 0 and bool((np.isfinite(entries) & (entries > precision.largest)).all())


def _certificate(
    oracle: Oracle,
    name: str,
    cases: Iterable[Sample],
    special: SpecialPoints,
    blank: Row,
    values: DrawnValues,
) -> Certificate:
    """The certificate of one map. A sample at which a witness raises says nothing, and gets a note."""
    start, row = time.perf_counter(), blank
    raised: list[tuple[Sample, str]] = []
    for sample in cases:
        if sample.first_order_only:
            continue
        try:
            findings = list(certify(oracle.at(sample), name, sample))
        except NoRule as error:
            return Certificate(replace(row, verdict=Verdict.UNRESOLVED, reason=str(error)))
        except Exception as error:
            if isinstance(error, NotFloat64 | OracleError) and not sample.has_empty_axis:
                raise
            raised.append((sample, where_of(error)))
            continue
        row = with_findings(row, findings)
        wrong = [f for f in findings if not f.holds]
        if wrong:
            row = _of_disagreement(row, oracle, sample, wrong)
            break
    else:
        if row.comparisons == 0 and raised:  # then the reason is that of all of them
            sample, where = raised[0]
            reason = remedies.with_remedy(f"{where} [{title(sample)}]")
            return Certificate(_timed(replace(row, verdict=Verdict.ERROR, reason=reason), start))
        row = _without_disagreement(row, oracle, name, special, values)
    notes = (f"{blank.op}, sample {sample.name}: no certificate of {name} there: {where}" for sample, where in raised)
    return Certificate(_timed(row, start), tuple(map(Note, notes)))


def _timed(row: Row, start: float) -> Row:
    return replace(row, seconds=time.perf_counter() - start)


def _of_disagreement(row: Row, oracle: Oracle, sample: Sample, wrong: Sequence[Finding]) -> Row:
    """The row of a map on which the witnesses disagree at a sample."""
    if (reason := not_a_function(oracle.at(sample), sample)) is not None:
        return replace(row, verdict=Verdict.UNRESOLVED, reason=reason)
    row = replace(row, verdict=Verdict.MISMATCH, reason=_sentence(wrong[0]) + _remedy(oracle))
    return replace(row, failure=replace(described(row, sample, wrong, oracle.spec), to_do=_TO_DO))


def _without_disagreement(row: Row, oracle: Oracle, name: str, special: SpecialPoints, values: DrawnValues) -> Row:
    """The row of a map on which the witnesses disagree at no sample, if they have said anything."""
    if row.comparisons == 0:
        return replace(row, verdict=Verdict.UNRESOLVED, reason=values.why_never_finite())
    if oracle.is_surrogate(name):
        return replace(row, reason=_SURROGATE[name])
    return replace(row, reason=special.contradiction(name) or "")


def _remedy(oracle: Oracle) -> str:
    """Return the remedy where the witnesses disagree for a known reason; else an empty text."""
    if oracle.spec.surrogate is None and oracle.stops_gradients:
        return (
            "; the primal has a stop_gradient: name the inputs that go through it only, OpSpec(detached=[...]); if its "
            "gradient is meant to be no derivative, as that of a straight-through estimator, give it as "
            "OpSpec(surrogate=...)"
        )
    return ""


def _sentence(finding: Finding) -> str:
    if isinstance(finding, Comparison):
        times = finding.error_over_bound
        amount = f"{times:.3g} times what rounding explains" if math.isfinite(times) else "where it must be exact"
        return f"{finding.label}: {finding.circumstance}: differs by {amount}"
    return f"{finding.label} {finding.violation}"
