"""How far a run has looked: the largest size, what was cut, and what cannot have run, in text and in JSON."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.report import extent
from parity_tests.harness.report.html import as_html
from parity_tests.harness.report.markdown import as_markdown
from parity_tests.harness.report.results import Row

PRODUCT = OpSpec("product", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")


def _row(check: str, candidate: str = "mine", verdict: Verdict = Verdict.PASS, **fields: object) -> Row:
    return replace(Row("op", candidate, check, "float32", "cpu", verdict, 0.5, 3), **fields)


PART = {"largest": "x (128,)", "numbers": 128, "of_numbers": 1000}
WHOLE = {"largest": "x (1000,)", "numbers": 1000, "of_numbers": 1000}


def test_the_largest_sample_of_a_run_is_told():
    report = crosscheck(torch.matmul, PRODUCT, checks=["forward", "vjp"], dtypes=["float64"])
    (record,) = report.as_dict()["summary"]
    sizes = {axis: int(n) for axis, n in (pair.split("=") for pair in record["largest"]["sizes"].split(", "))}
    assert record["largest"]["numbers"] == (sizes["n"] + sizes["m"]) * sizes["k"] > 10_000
    assert (record["cut"], record["given_size"], record["unseen"]) == (None, None, [])
    assert f"largest: {record['largest']['sizes']} ({record['largest']['numbers']:,} numbers)" in str(report)


def test_of_given_inputs_the_shapes_are_told():
    spec = OpSpec("square", primal=lambda x: x * x, inputs=[np.arange(6.0).reshape(2, 3)])
    report = crosscheck(lambda x: x * x, spec, checks=["forward"], dtypes=["float64"], name="mine")
    assert "mine, largest: x (2, 3) (6 numbers)" in str(report)


@pytest.mark.parametrize(
    ("rows", "line", "at_given_size"),
    [
        ([_row("vjp", **PART)], "judged at 128 of 1,000 numbers, and at no larger size", False),
        (
            [_row("vjp", **PART), _row("given_size", verdict=Verdict.SKIPPED, comparisons=0)],
            "judged at 128 of 1,000 numbers, and at no larger size",
            False,
        ),
        (
            [_row("vjp", **PART), _row("given_size", **WHOLE)],
            "judged at 128 of 1,000 numbers; values and gradients at all of them, too",
            True,
        ),
    ],
    ids=["not asked for", "too large", "judged"],
)
def test_what_was_cut_is_told_wherever_the_report_is_shown(rows: list[Row], line: str, at_given_size: bool):
    report = Report({}, rows)
    (record,) = report.as_dict()["summary"]
    assert (record["cut"], record["given_size"]) == ({"numbers": 128, "of": 1000}, at_given_size)
    for text in (str(report), as_html(report), as_markdown(report)):
        assert line in text
    (verdict,) = (text for text in str(report).splitlines() if text.startswith("All agree"))
    assert (line in verdict) is not at_given_size


def test_a_size_that_is_too_large_for_the_problem_to_be_read_stands_beside_the_verdict():
    given = NotBuilt(
        "mine", "get_inputs() has 1,073,741,824 numbers; it is judged at smaller sizes only", too_large=True
    )
    report = Report({}, [_row("vjp")], not_built=[given, NotBuilt("theirs", "no compiler")])
    (verdict,) = (text for text in str(report).splitlines() if text.startswith("All agree"))
    assert verdict.endswith(f"; {given.reason}")
    assert Report.from_dict(report.as_dict()).not_built == report.not_built


def test_candidates_that_were_judged_alike_share_a_line():
    size = {"largest": "n=4", "numbers": 4}
    rows = [_row("vjp", name, **size) for name in ("one", "two")] + [_row("vjp", "three", largest="n=3", numbers=3)]
    assert extent.lines(Report({}, rows)) == ["one, two, largest: n=4 (4 numbers)", "three, largest: n=3 (3 numbers)"]


def test_that_a_gpu_was_missing_is_in_the_record_of_what_was_judged_on_the_cpu():
    rows = [_row("vjp"), replace(_row("vjp", "other"), device="cuda")]
    report = Report({}, rows, skipped=["device cuda: sees no CUDA device"])
    mine, other = report.as_dict()["summary"]
    assert mine["unseen"] == ["judged on the CPU alone: sees no CUDA device"]
    assert other["unseen"] == []
