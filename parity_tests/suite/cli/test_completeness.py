"""A report with a row too many, too few, or beyond its bound is no report of a run."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from parity_tests.cli.completeness import incomplete
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import ORACLE, Row

PLANNED = [("sine", {"cpu": (("f", "forward", "float32"), ("f", "vjp", "float32"))})]
ROWS = [Row("sine", "f", check, "float32", "cpu", Verdict.PASS, 0.5, 3) for check in ("forward", "vjp")]


def test_each_planned_row_once() -> None:
    certificate = replace(ROWS[0], candidate=ORACLE)
    assert incomplete([certificate, certificate, *reversed(ROWS)], PLANNED) is None


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:1], "the row sine, f, vjp, float32, cpu is missing"),
        ([], "is missing"),
        ([*ROWS, ROWS[0]], "the row sine, f, forward, float32, cpu is there, and was not asked for"),
        ([*ROWS, replace(ROWS[0], op="cosine")], "the row cosine, f, forward, float32, cpu is there"),
        ([ROWS[0], replace(ROWS[1], error_over_bound=4e6)], "f, vjp, float32 passes with 4e+06 times the error"),
        ([ROWS[0], replace(ROWS[1], error_over_bound=math.nan)], "passes with nan times"),
        ([ROWS[0], replace(ROWS[1], comparisons=0)], "f, vjp, float32 passes with 0 comparisons"),
    ],
)
def test_what_is_wrong_with_the_rows(rows: list[Row], words: str) -> None:
    assert words in (incomplete(rows, PLANNED) or "")
