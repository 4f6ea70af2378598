"""The rows of one candidate in one format: how each check comes to its verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from parity_tests.harness.candidates.torch_log import TorchLog
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.checks import Check
from parity_tests.harness.checks.low_precision import by_right_code
from parity_tests.harness.diagnosis.suspicions import suspected
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.accepted_samples import accepted_by, notes_on
from parity_tests.harness.judging.certified import not_a_function
from parity_tests.harness.judging.failing_rows import failure_of
from parity_tests.harness.judging.limits import held_to_limit
from parity_tests.harness.judging.outcome import outcome_of
from parity_tests.harness.judging.refusals import refused_row
from parity_tests.harness.judging.row_findings import with_outcome
from parity_tests.harness.judging.turn import Turn
from parity_tests.harness.judging.unseen_branches import unseen_branches
from parity_tests.harness.judging.verdicts import Judged, has_no_evidence, verdict_of, without_comparisons
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.report.results import Event, Note, Row
from parity_tests.harness.specs.samples import Sample


def rows_of(
    turn: Turn, checks: Iterable[Check], cases: Iterable[Sample], uncertified: Mapping[str, str]
) -> Iterator[Event]:
    """A row for each check, and a note for each sample that is not judged; `uncertified`: maps, and why."""
    history, limits = turn.history, turn.candidate.limits or {}
    # Samples that the candidate refuses, or whose values the format does not have, are noted.
    with pinned() as replaced, TorchLog():
        accepted = accepted_by(turn, cases)
    yield from history.news([*accepted.notes, *turn.notes_of_replaced(replaced)])
    for check in checks:
        # A check judges only by maps of the oracle that have a certificate.
        lacking = next((each for each in check.maps if each in uncertified), None)
        if lacking is not None:
            reason = f"the oracle's {lacking} has no certificate: {uncertified[lacking]}"
            yield replace(turn.blank(check.name), verdict=Verdict.UNRESOLVED, reason=reason)
            continue
        with pinned() as replaced:
            shrink = turn.is_worth_shrinking(check)
            row, notes = row_of(turn, check, accepted.samples, shrink)
            # Where bounds of 16 bits are as large as the results, the runs of right code may tell more.
            other = by_right_code(check) if has_no_evidence(row.reason) and turn.precision.is_short else None
            if other is not None:
                settled = row_of(turn, other, accepted.samples, shrink)
                row, notes = (row, notes) if settled[0].verdict is Verdict.UNRESOLVED else settled
            # What has run may have a branch that has not.
            if row.comparisons:
                row = replace(row, unseen=unseen_branches(turn, check, accepted.samples))
        yield from history.news([*notes, *turn.notes_of_replaced(replaced)])
        history.add(row, check, turn.precision)
        # A row that has compared nothing is skipped if another one answers its question.
        if not row.comparisons:
            elsewhere, avoided = check.name in history.compared, turn.plan.earlier.avoided.get(turn.candidate.name, ())
            row = without_comparisons(row, check, elsewhere, accepted.overflow, avoided)
        # A check that is listed as a limit must fail.
        yield held_to_limit(row, limits.get(check.name))


def row_of(turn: Turn, check: Check, samples: Sequence[Sample], shrink: bool) -> tuple[Row, list[Note]]:
    """The row of a check, with the failure explained, and a note on each sample that it did not judge.

    `shrink`: whether the smallest input that fails is looked for.
    """
    start, row, judged, log = time.perf_counter(), turn.blank(check.name), Judged(turn.precision), TorchLog()
    # A check that has nothing to say about such a candidate, or in such a format, is skipped.
    if why := turn.why_inapplicable(check):
        return replace(row, verdict=Verdict.SKIPPED, reason=why), []
    # It runs at its samples until one decides.
    for sample in check.chosen(samples):
        with log:
            outcome = judged.add(outcome_of(check, turn.trial_at(check.name, sample)))
        row = with_outcome(row, outcome)
        if outcome.is_final:
            break
    notes = notes_on(turn, judged.outcomes)
    # The verdict follows from the table in verdicts.py.
    conclusion = verdict_of(judged)
    verdict, decider = conclusion.verdict, conclusion.outcome
    row = replace(row, verdict=verdict, reason=conclusion.reason, seconds=time.perf_counter() - start)
    # A refusal is excused by its reason, unless the author lists the limits.
    if decider is not None and isinstance(decider.error, Refused) and verdict is Verdict.UNSUPPORTED:
        row = refused_row(turn, row, decider.trial, decider.error)
    if decider is None or verdict not in (Verdict.MISMATCH, Verdict.SUSPECT):
        return row, notes
    # An oracle that gives two answers decides nothing.
    if (reason := not_a_function(decider.trial.oracle, decider.trial.sample)) is not None:
        return replace(row, verdict=Verdict.UNRESOLVED, reason=reason), notes
    # A suspicion is described, and a failing row is explained.
    if verdict is Verdict.SUSPECT:
        return replace(row, failure=suspected(row, decider.trial, decider.suspicions, turn.plan.replay)), notes
    with TorchLog():  # of what explains it
        failure = failure_of(turn, row, check, decider, judged.outcomes, shrink)
    return replace(row, failure=replace(failure, log=log.text)), notes
