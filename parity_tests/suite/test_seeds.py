"""No mistake is caught by luck: every planted mistake of the collection is caught at each of five seeds."""

from __future__ import annotations

import functools

import pytest

from parity_tests.harness.candidate import Candidate
from parity_tests.harness.court import Court
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.report import Report
from parity_tests.suite.collection import COLLECTION, MORE, Case
from parity_tests.suite.collection._case import Mistake

SEEDS = range(5)
MISTAKES = [
    pytest.param(case, mistake, id=f"{op}-{name}")
    for op, case in (COLLECTION | MORE).items()
    for name, mistake in case.mistakes.items()
]


@functools.lru_cache(maxsize=1)  # the mistakes of a case follow one another
def courts(case: Case) -> list[Court]:
    """A court for each seed; the oracle is traced and certified once for all of them."""
    first = Court(case.spec, "cpu", SEEDS[0])
    return [first, *(first.at_seed(seed) for seed in SEEDS[1:])]


def verdict(case: Case, mistake: Mistake, court: Court, seed: int) -> tuple[Verdict, Report]:
    """Of the one check that must catch a mistake, in its format. It is not shrunk, which takes most of the time."""
    docket = Docket(
        spec=case.spec,
        candidates=[Candidate(mistake.call, "wrong")],
        checks=select_checks([mistake.caught_by]),
        precisions=select_precisions([mistake.dtype]),
        device="cpu",
        seed=seed,
        replay=lambda row: "",
        deadline=0.0,
        court=court,
    )
    report = Report({})
    rows = [row for row in judge(docket, report) if row.candidate == "wrong"]
    return rows[0].verdict, report


@pytest.mark.slow
@pytest.mark.parametrize(("case", "mistake"), MISTAKES)
def test_a_mistake_is_caught_at_every_seed(case, mistake):
    for seed, court in zip(SEEDS, courts(case), strict=True):
        found, report = verdict(case, mistake, court, seed)
        assert found is Verdict.MISMATCH, f"seed {seed}\n{report}"
