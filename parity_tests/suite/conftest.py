"""What the suite's tests share: one run of the whole court on each device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pytest

from parity_tests.harness.candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.report import Report
from parity_tests.suite.attn import CANDIDATES, SPEC


def run_attn(
    candidates: Sequence[Candidate],
    checks: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> Report:
    """Judge implementations of attn, in this process."""
    docket = Docket(SPEC, candidates, select_checks(checks), select_precisions(dtypes), device, seed, lambda row: "")
    report = Report({})
    for _ in judge(docket, report):
        pass
    return report


@pytest.fixture(scope="session")
def report() -> Callable[[str], Report]:
    """Every implementation x check x dtype on a device, judged once."""
    return functools.cache(lambda device: run_attn(list(CANDIDATES.values()), device=device))
