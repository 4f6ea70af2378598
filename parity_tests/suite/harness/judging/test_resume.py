"""Judging goes on where an earlier process came to its end: what is known is not judged again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from parity_tests import OpSpec, Report, Verdict
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import judge
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.judging.resume import Earlier, key_of
from parity_tests.harness.judging.selection import select_checks, select_precisions
from parity_tests.harness.report.results import ORACLE

SPEC = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")


def plan(call, **fields) -> Plan:
    """Of two checks in two formats."""
    return Plan(
        spec=SPEC,
        candidates=[Candidate(call, "mine")],
        checks=select_checks(["forward", "vjp"]),
        precisions=select_precisions(["float64", "float32"]),
        device="cpu",
        seed=0,
        replay=lambda row: "",
        **fields,
    )


def keys(rows):
    """What tells rows apart."""
    return [key_of(row) for row in rows]


@pytest.mark.slow
def test_what_is_known_is_not_judged_again():
    """Wherever the earlier process ended."""
    oracles = Oracles(SPEC, "cpu", 0)  # certified once
    whole = list(Report({}).collect(judge(plan(torch.square, oracles=oracles))))
    assert len(whole) == plan(torch.square).length == 5
    for count in range(len(whole) + 1):
        earlier = Earlier(rows={key_of(row): row for row in whole[:count]})
        rest = list(Report({}).collect(judge(plan(torch.square, oracles=oracles, earlier=earlier))))
        assert keys(rest) == keys(whole[count:])
        assert [row.error_over_bound for row in rest] == [row.error_over_bound for row in whole[count:]]


def test_a_certificate_that_failed_before_judges_nobody():
    (oracle, *_) = Report({}).collect(judge(plan(torch.square)))
    failed = replace(oracle, verdict=Verdict.MISMATCH, reason="the witnesses disagree")
    rest = list(Report({}).collect(judge(plan(torch.square, earlier=Earlier(rows={key_of(oracle): failed})))))
    assert {(row.check, row.verdict) for row in rest} == {("forward", Verdict.PASS), ("vjp", Verdict.UNRESOLVED)}


@pytest.mark.slow
def test_a_sample_that_is_avoided():
    called: set[int] = set()

    def square(x):
        called.add(x.numel())
        return x * x

    every = {sample.name for sample in plan(square).samples(SPEC, 0)}
    avoided = Earlier(avoided={"mine": frozenset({"zero_n"})})
    rows = [row for row in Report({}).collect(judge(plan(square, earlier=avoided))) if row.candidate != ORACLE]
    assert all(row.verdict is Verdict.PASS for row in rows)
    assert called
    assert 0 not in called
    nowhere = Earlier(avoided={"mine": frozenset(every)})
    rows = [row for row in Report({}).collect(judge(plan(square, earlier=nowhere))) if row.candidate != ORACLE]
    assert {row.verdict for row in rows} == {Verdict.UNRESOLVED}
    assert "it is not called any more at all_axes_differ, " in rows[0].reason


def test_a_candidate_that_is_given_up_is_not_called():
    def never(x):
        raise AssertionError

    rows = list(Report({}).collect(judge(plan(never, earlier=Earlier(given_up={"mine": "enough"})))))
    told = [(row.verdict, row.reason) for row in rows if row.candidate != ORACLE]
    assert told == [(Verdict.UNRESOLVED, "enough")] * 4


@pytest.mark.slow
def test_a_candidate_whose_failures_are_not_shrunk(shrinking):
    def smallest(earlier: Earlier):
        report = Report({})
        list(report.collect(judge(plan(lambda x: 2 * x * x, earlier=earlier))))
        return [failure.smallest is not None for failure in report.failures]

    assert smallest(Earlier()) == [True, False, False, False]
    assert smallest(Earlier(unshrunk=frozenset({"mine"}))) == [False] * 4
