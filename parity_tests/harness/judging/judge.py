"""The judging loop: one row for each candidate, check and format, as soon as it is known."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.triton_interpreter import unseen_by_interpreter
from parity_tests.harness.checks import Check
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.candidate_rows import row_of, rows_of
from parity_tests.harness.judging.certified import Oracles, only_real
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.judging.resume import key_of
from parity_tests.harness.judging.turn import History, Turn
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.names_of_results import check_stored
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.report.results import ORACLE, Event, Note


def judge(plan: Plan) -> Generator[Event, None, None]:
    """Certify the oracle, then judge every candidate by the maps that have a certificate.

    Yields each row as soon as it is known, but for those that an earlier process has found (`Plan.earlier`); each
    candidate that is not built, first; and a note for each sample that is not judged. `Report.collect` takes them.

    Raises:
        OracleError: the primal does not run, does not fit its signature, or is not a function of float64; or a
            candidate's `Arithmetic` stores what the oracle has no name for.
    """
    for candidate in plan.candidates:
        if isinstance(candidate, NotBuilt):
            yield candidate
    if plan.candidates and not plan.present:
        return  # an oracle that has nobody to judge; without any candidate it is the one that is asked about
    oracles = plan.oracles or Oracles(plan.spec, plan.device, plan.seed, plan.samples)
    _check_stored(plan, oracles)
    uncertified = yield from _certificates(plan, oracles)
    for candidate in plan.present:
        history = History()
        for precision, of_turn in plan.turns(candidate.name):
            checks = _unknown(plan, candidate.name, precision, of_turn, history)
            fixed = _fixed(plan, oracles, candidate.name, precision)
            if fixed is not None:
                verdict, reason = fixed
                listed = verdict is Verdict.UNSUPPORTED
                for check in checks:
                    blank = plan.blank(candidate.name, check.name, precision)
                    yield replace(blank, verdict=verdict, reason=reason, listed=listed, declared=listed)
            elif checks:
                certified_oracle, without = oracles.certified_oracle(precision.double), uncertified[precision.double]
                turn = Turn(plan, candidate, certified_oracle.oracle, precision, history)
                yield from rows_of(turn, checks, certified_oracle.cases, without)
    unseen = unseen_by_interpreter() if any(c.framework == "torch" for c in plan.present) else None
    if unseen is not None:
        yield Note(unseen)


def _check_stored(plan: Plan, oracles: Oracles) -> None:
    """Check that the intermediates exist which candidates say that they store."""
    stating = [candidate for candidate in plan.present if candidate.arithmetic is not None]
    for kind in plan.kinds if stating else ():
        if only_real(plan.spec, kind) is None and (cases := oracles.certified_oracle(kind).cases):
            oracle = oracles.certified_oracle(kind).oracle.at(cases[0])
            with pinned():
                for candidate in stating:
                    check_stored(oracle, cases[0], candidate.name, candidate.arithmetic)


def _unknown(
    plan: Plan, candidate: str, precision: Precision, of_turn: Sequence[Check], history: History
) -> list[Check]:
    """The checks of a turn whose rows no earlier process has found; of the others, what the rows to come rely on."""
    checks = []
    for check in of_turn:
        row = plan.earlier.rows.get((candidate, check.name, precision.name))
        if row is None:
            checks.append(check)
        else:
            history.add(row, check, precision)
    return checks


def _fixed(plan: Plan, oracles: Oracles, candidate: str, precision: Precision) -> tuple[Verdict, str] | None:
    """The verdict and the reason where a candidate is not run in a format at all; None if it is run."""
    given_up = plan.earlier.given_up.get(candidate)
    if given_up is not None:
        return Verdict.UNRESOLVED, given_up
    if not plan.spec.exists_in(precision.name):
        return Verdict.UNSUPPORTED, f"OpSpec.dtypes is {', '.join(plan.spec.formats)}"
    if (lacks := devices.lacks(plan.device, precision.name)) is not None:
        return Verdict.UNSUPPORTED, lacks
    inapplicable = only_real(plan.spec, precision.double)
    if inapplicable is not None:
        return Verdict.SKIPPED, inapplicable
    certified_oracle = oracles.certified_oracle(precision.double)
    if certified_oracle.unusable is not None:
        return Verdict.UNRESOLVED, certified_oracle.unusable
    if certified_oracle.oracle.is_complex and precision.complex_name is None:
        return Verdict.SKIPPED, f"complex numbers take part, and {precision.name} has none"
    return None


def _certificates(plan: Plan, oracles: Oracles) -> Generator[Event, None, dict[Precision, dict[str, str]]]:
    """The oracle's own rows; returns, for each kind of numbers, the maps without a certificate, and why."""
    known, uncertified = plan.earlier.rows, dict[Precision, dict[str, str]]()
    for kind in plan.kinds:
        inapplicable = only_real(plan.spec, kind)
        if inapplicable:
            for name in plan.certificates:
                blank = plan.blank(ORACLE, name, kind)
                if key_of(blank) not in known:
                    yield replace(blank, verdict=Verdict.SKIPPED, reason=inapplicable)
            continue
        certified_oracle = oracles.certified_oracle(kind)
        yield from certified_oracle.notes
        uncertified[kind] = {}
        for name in plan.certificates:
            row = known.get((ORACLE, name, kind.name))
            if row is None:
                certificate = certified_oracle.certificate(name)
                row = certificate.row
                yield row
                yield from certificate.notes
            if not row.passed:
                uncertified[kind][name] = row.reason or "the witnesses disagree"
    return uncertified


def judge_at(plan: Plan) -> Iterator[Event]:
    """The first candidate under the first check, at the first sample, whatever the check looks at otherwise.

    For a replay: the oracle has had its certificate, and what has been shrunk is not shrunk further. Yields one row.

    Raises:
        OracleError: the primal does not run at the sample.
    """
    sample = next(iter(plan.samples(plan.spec, plan.seed)))
    everywhere = {"large": True, "generic": False, "kernel_sized": False, "whole": sample.whole}
    check, precision = replace(plan.checks[0], **everywhere), plan.precisions[0]
    with pinned():
        turn = Turn(plan, plan.present[0], Oracle(plan.spec, sample), precision)
        row, notes = row_of(turn, check, [sample], shrink=False)
    yield from notes
    yield row
