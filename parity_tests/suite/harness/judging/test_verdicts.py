"""The table of verdicts, line by line, and which line comes first."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.findings import Fact, Finding, NotApplicable, Suspicion, Verdict
from parity_tests.harness.judging.outcome import End, Outcome
from parity_tests.harness.judging.verdicts import (
    NO_EVIDENCE,
    OF_NO_BOUND,
    OF_WIDE_BOUNDS,
    OF_ZEROS,
    TABLE,
    Judged,
    verdict_of,
)
from parity_tests.harness.numbers.formats import FORMATS

FLOAT64 = FORMATS["float64"]
SUSPICION = Suspicion("x_bar", (), *[cast(Any, None)] * 3)
RIGHT, WRONG = Fact("x_bar", True, ""), Fact("x_bar", False, "is wrong")


def outcome(end: End = End.COMPLETE, *findings: Finding, error: BaseException | None = None) -> Outcome:
    return Outcome(cast(Any, None), findings, end, error)  # a verdict does not look at the trial


COMPLETE = outcome(End.COMPLETE, RIGHT)
# In the order of the table
DECIDING = {
    "a wrong result": (outcome(End.COMPLETE, RIGHT, WRONG), Verdict.MISMATCH),
    "an exception of the candidate's": (outcome(End.RAISED, error=ValueError("no")), Verdict.MISMATCH),
    "a defect": (outcome(End.BROKEN, error=KeyError("x")), Verdict.ERROR),
    "a suspicion": (outcome(End.COMPLETE, RIGHT, SUSPICION), Verdict.SUSPECT),
    "no rule": (outcome(End.UNRESOLVED, error=NotImplementedError("sort")), Verdict.UNRESOLVED),
    "a refusal": (outcome(End.REFUSED, error=Refused("no jvp", Reason.NO_JVP)), Verdict.UNSUPPORTED),
    "nothing to say": (outcome(End.INAPPLICABLE, error=NotApplicable("no inputs")), Verdict.SKIPPED),
}


@pytest.mark.parametrize("line", DECIDING)
def test_each_line_decides(line: str) -> None:
    decider, verdict = DECIDING[line]
    judged = Judged(FLOAT64, [outcome(End.EMPTY_REFUSED), decider], comparisons=3, bounded=True)
    assert (verdict_of(judged).verdict, verdict_of(judged).outcome) == (verdict, decider)


@pytest.mark.parametrize(("first", "second"), [*itertools.combinations(DECIDING, 2)])
def test_a_line_above_comes_first_at_whichever_sample(first: str, second: str) -> None:
    (above, verdict), (below, _) = DECIDING[first], DECIDING[second]
    for outcomes in ([above, below], [below, above]):
        assert verdict_of(Judged(FLOAT64, outcomes, 3, True)).outcome is above
        assert verdict_of(Judged(FLOAT64, outcomes, 3, True)).verdict is verdict


def test_every_line_of_the_table_has_its_case() -> None:
    assert [verdict for _, verdict in TABLE] == [verdict for _, verdict in DECIDING.values()]


def test_a_wrong_result_before_an_exception_at_the_same_sample_decides() -> None:
    both = outcome(End.RAISED, WRONG, error=ValueError("no"))
    assert verdict_of(Judged(FLOAT64, [both], 1, True)).verdict is Verdict.MISMATCH


def test_what_applies_at_one_sample_is_not_skipped() -> None:
    inapplicable, _ = DECIDING["nothing to say"]
    assert verdict_of(Judged(FLOAT64, [inapplicable, COMPLETE], 1, True)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("judged", "verdict", "reason"),
    [
        (Judged(FLOAT64, [COMPLETE], 1, True), Verdict.PASS, ""),
        (Judged(FLOAT64, [COMPLETE], 1, False), Verdict.PASS, ""),  # a fact has no bound
        (Judged(FLOAT64, [COMPLETE], 0, True), Verdict.UNRESOLVED, NO_EVIDENCE),
        (Judged(FLOAT64, [COMPLETE], 0, True, zero=True), Verdict.UNRESOLVED, OF_ZEROS),
        (Judged(FLOAT64, [COMPLETE], 0, True, zero=False), Verdict.UNRESOLVED, OF_WIDE_BOUNDS),
        (Judged(FLOAT64, [COMPLETE], 0, False), Verdict.UNRESOLVED, OF_NO_BOUND.format(largest=FLOAT64.largest)),
    ],
)
def test_without_a_deciding_outcome(judged: Judged, verdict: Verdict, reason: str) -> None:
    conclusion = verdict_of(judged)
    assert (conclusion.verdict, conclusion.reason, conclusion.outcome) == (verdict, reason, None)


def refused_at(has_empty_axis: bool) -> Outcome:
    trial = SimpleNamespace(sample=SimpleNamespace(has_empty_axis=has_empty_axis))
    return Outcome(cast(Any, trial), (), End.REFUSED, Refused("no", Reason.NO_JVP))


@pytest.mark.parametrize(
    ("before", "has_empty_axis", "end"),
    [
        ([COMPLETE], True, End.EMPTY_REFUSED),
        ([COMPLETE], False, End.REFUSED),
        ([], True, End.REFUSED),
        ([outcome(End.RAISED)], True, End.REFUSED),
    ],
)
def test_an_empty_axis_alone_may_be_refused_where_another_sample_is_accepted(
    before: list[Outcome], has_empty_axis: bool, end: End
) -> None:
    judged = Judged(FLOAT64, before)
    assert judged.add(refused_at(has_empty_axis)).end is judged.outcomes[-1].end is end


def test_what_an_outcome_says_is_counted_and_kept_only_if_something_is_wrong() -> None:
    judged = Judged(FLOAT64)
    assert judged.add(COMPLETE) is COMPLETE
    judged.add(outcome(End.COMPLETE, RIGHT, WRONG))
    assert [found.findings for found in judged.outcomes] == [(), (RIGHT, WRONG)]
    assert judged.comparisons == sum(finding.evidence for finding in (RIGHT, RIGHT, WRONG))
    assert (judged.bounded, judged.zero, judged.proved, judged.unproved) == (True, None, False, "")


def test_no_samples_at_all_are_no_pass() -> None:
    assert verdict_of(Judged(FLOAT64, [], 0, False)).verdict is Verdict.UNRESOLVED
