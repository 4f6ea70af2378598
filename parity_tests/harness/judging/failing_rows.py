"""The failure of a row: the diagnosis, the smallest input that fails, and its reproducer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from parity_tests.harness.checks import Check
from parity_tests.harness.checks.explanations import to_do
from parity_tests.harness.diagnosis.failures import described, explained, smallest_of, wrong_result
from parity_tests.harness.exceptions.explaining import Explained, explain, unexplained
from parity_tests.harness.findings import Finding
from parity_tests.harness.judging.outcome import End, Outcome, is_beyond_first_order, raised
from parity_tests.harness.judging.reproducer import Reproducer
from parity_tests.harness.judging.shrink import fails_at, raises_at
from parity_tests.harness.judging.titles import title
from parity_tests.harness.judging.turn import Turn
from parity_tests.harness.report.results import Failure, Row, Smallest
from parity_tests.harness.trial.trial import Trial


def failure_of(
    turn: Turn, row: Row, check: Check, outcome: Outcome, outcomes: Sequence[Outcome], shrink: bool
) -> Failure:
    """Return the failure at the sample that decides, with an exception that the candidate raises at another one."""
    findings = [*outcome.findings, *([raised(outcome, check.name)] if outcome.end is End.RAISED else [])]
    failure = _diagnosed(turn, row, outcome.trial, findings)
    failing = [o for o in outcomes if o.wrong or o.end is End.RAISED]
    elsewhere = next((o for o in failing if o.end is End.RAISED), outcome)
    if outcome.wrong and elsewhere is not outcome:
        result = wrong_result(raised(elsewhere, check.name), turn.plan.spec, check.name).value
        where = "; ".join(part for part in (f"at {title(elsewhere.trial.sample)}", result.circumstance) if part)
        failure = replace(failure, wrong=(*failure.wrong, replace(result, circumstance=where)))
    step = explain("what to do", lambda: to_do(check, turn.candidate.framework, bool(outcome.wrong)))
    beyond = all(is_beyond_first_order(o, check.name) for o in failing)
    failure = replace(failure, beyond_first_order=beyond, to_do=failure.to_do or step.value or "")
    failure = _with_lines(failure, step)
    if not shrink:
        return failure
    smaller = _with_smallest if outcome.wrong else _with_smallest_sizes
    shrunk = explain("shrinking", lambda: smaller(turn, failure, check, outcome))
    return _with_lines(shrunk.value or failure, shrunk)


def _diagnosed(turn: Turn, row: Row, trial: Trial, findings: list[Finding]) -> Failure:
    """The failure of a row on one trial, with the command that judges it again."""
    diagnosed = explain("the diagnosis", lambda: explained(row, trial, findings))
    failure = diagnosed.value
    if failure is None:
        failure = described(row, trial.sample, [f for f in findings if not f.holds], turn.plan.spec)
    replay = explain("how to replay it", lambda: turn.plan.replay(row))
    return _with_lines(replace(failure, replay=replay.value), diagnosed, replay)


def _with_smallest(turn: Turn, failure: Failure, check: Check, outcome: Outcome) -> Failure:
    """Add to a failure the smallest input that fails, and what a reproducer of it needs."""
    plan, trial_at, sample = turn.plan, partial(turn.trial_at, check.name), outcome.trial.sample
    found = fails_at(plan.spec, trial_at, check, sample, outcome.findings, plan.shrink_deadline())
    if found is None:  # it does not fail again, or nothing is to be shrunk
        return failure
    trial, wrong = found
    smallest = smallest_of(failure, trial, wrong)
    position = next(i for i, other in enumerate(plan.candidates) if other is turn.candidate)
    make = partial(Reproducer, plan.spec, turn.candidate, position, check, trial, wrong, plan.case, plan.origin)
    evidence = explain("the reproducer", make)
    return _with_lines(replace(failure, smallest=smallest.value, evidence=evidence.value), smallest, evidence)


def _with_smallest_sizes(turn: Turn, failure: Failure, check: Check, outcome: Outcome) -> Failure:
    """Add to a failure the smallest sizes at which the candidate raises the same exception."""
    trial_at = partial(turn.trial_at, check.name)
    smallest = raises_at(turn.plan.spec, trial_at, check, outcome, turn.plan.shrink_deadline())
    if smallest is None:
        return failure
    result = wrong_result(raised(smallest, check.name), turn.plan.spec, check.name)
    smallest = Smallest(dict(smallest.trial.sample.sizes), {}, result.value)
    return _with_lines(replace(failure, smallest=smallest), result)


def _with_lines(failure: Failure, *explanations: Explained) -> Failure:
    """A failure with the lines of explanations that raised."""
    return replace(failure, unexplained=unexplained(Explained(failure, failure.unexplained), *explanations))
