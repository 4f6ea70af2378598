"""The summary of a report: a record for each candidate, with verdict, reason and smallest case."""

from __future__ import annotations

import json
import sys

import pytest

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.triton_interpreter import UNSEEN
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.harness.report.text import failures
from parity_tests.suite.harness._ops import SQUARE, unary_function


def _row(check: str, verdict: Verdict, reason: str = "", op: str = "op") -> Row:
    return Row(op, "mine", check, "float32", "cpu", verdict, 0.0, 3, reason)


def _summary(*rows: Row) -> list[dict]:
    return Report({}, list(rows)).as_dict()["summary"]


def test_one_record_for_each_operator_and_candidate():
    oracle = Row("op", ORACLE, "vjp", "float64", "cpu", Verdict.PASS, 0.0, 3)
    first, second = _summary(oracle, _row("vjp", Verdict.PASS), _row("jvp", Verdict.MISMATCH, op="other"))
    assert (first["op"], first["verdict"], first["reason"]) == ("op", "PASS", None)
    assert (second["op"], second["verdict"], second["check"]) == ("other", "MISMATCH", "jvp")
    assert first.keys() == second.keys()


def test_the_row_that_says_most_decides():
    (record,) = _summary(
        _row("forward", Verdict.UNRESOLVED, "no bound"),
        _row("vjp", Verdict.MISMATCH),
        _row("shortcuts", Verdict.MISMATCH),
    )
    assert (record["verdict"], record["check"]) == ("MISMATCH", "shortcuts")
    (record,) = _summary(_row("vjp", Verdict.SKIPPED, "why"))
    assert record["verdict"] == "SKIPPED"


def test_what_is_not_built_is_told():
    report = Report({}, not_built=[NotBuilt("theirs", "no compiler"), NotBuilt("mine", "broken", expected=False)])
    told = [(record["candidate"], record["verdict"], record["reason"]) for record in report.as_dict()["summary"]]
    assert told == [("theirs", "SKIPPED", "no compiler"), ("mine", "ERROR", "broken")]
    least, _ = failures(report)  # by --quiet, and the verdict
    assert least.plain == "mine, not built: broken"


@pytest.mark.usefixtures("shrinking")
def test_the_reason_and_the_smallest_case_of_a_failure():
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
    wrong = unary_function(lambda x: x * x, lambda x, g: x * g)
    report = crosscheck(wrong, spec, checks=["vjp"], dtypes=["float64"], name="mine", quick=True)
    (record,) = json.loads(report.as_json())["summary"]
    assert (record["verdict"], record["check"], record["dtype"]) == ("MISMATCH", "vjp", "float64")
    assert record["reason"].startswith("x_bar ")
    assert record["smallest"]["sizes"] == {"n": 1, "m": 1}
    assert record["replay"]
    assert Report.from_dict(json.loads(report.as_json())).as_dict()["summary"] == [record]


def test_what_the_interpreter_of_triton_cannot_show_is_noted(monkeypatch):
    def skipped() -> list[str]:
        return crosscheck(lambda x: x * x, SQUARE, checks=["forward"], dtypes=["float64"]).skipped

    monkeypatch.setitem(sys.modules, "triton", sys)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert skipped() == []
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert skipped() == [UNSEEN]
    monkeypatch.delitem(sys.modules, "triton")
    assert skipped() == []
