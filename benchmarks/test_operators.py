"""The survey of operators: who was chosen, what an outcome is called, and which bars it meets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest import mock

import pytest
import torch
from typer.testing import CliRunner

from benchmarks import apart
from benchmarks.operators.__main__ import app, campaign
from benchmarks.operators._case import Defect
from benchmarks.operators.rule import PASSED_OVER, chosen
from benchmarks.operators.run import Outcome, judge_apart
from benchmarks.operators.survey import CASES
from benchmarks.operators.table import as_markdown, bars, times
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import Failure, Row, WrongResult

MACHINE = {"cpu": "a processor", "cores": 2, "load": [1.0]}
FACTS = {"machine": MACHINE, "versions": {"torch": "2"}, "date": "today", "seed": 0, "complete": True}


def wrong_result(label: str, circumstance: str = "z has squares that overflow") -> WrongResult:
    return WrongResult(label, "", circumstance)


def failing_row(
    check: str = "points", dtype: str = "float32", wrong: tuple[WrongResult, ...] = (wrong_result("z_bar"),)
) -> Row:
    failure = Failure("addcdiv", "x", check, dtype, "cpu", "all_axes_differ", "", {}, 0, wrong)
    return Row("addcdiv", "x", check, dtype, "cpu", Verdict.MISMATCH, 2.0, 1, failure=failure)


def failing(check: str, verdict: str = "MISMATCH") -> dict[str, str]:
    return {"check": check, "dtype": "float64", "verdict": verdict, "reason": "", "candidate": "x"}


def outcome(name: str = "x", **fields) -> Outcome:
    return Outcome(name, rows={"PASS": 99}, seconds=2.0, megabytes=500, **fields)


@pytest.mark.slow  # for the import of op_db
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the survey is of the operators of PyTorch 2.13")
def test_the_rule_chooses_the_operators_of_the_survey() -> None:
    from parity_tests.suite.opinfo import _machinery  # noqa: F401  # imports PyTorch's test machinery harmlessly

    import torch.testing._internal.common_methods_invocations as listed  # isort: skip

    full = [
        f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        for op in listed.op_db
        if op.supports_autograd
    ]
    assert sorted(chosen(full)) == sorted(CASES)
    assert set(PASSED_OVER) <= set(full)


def test_a_group_that_is_passed_over_leaves_its_place_to_the_next() -> None:
    names = [f"{i:03}" for i in range(500)]
    assert chosen(names, {*names[:5], "012"})[:3] == ["007", "008", "013"]
    with pytest.raises(ValueError, match="1 operators"):
        chosen(names, names[-5:])


def test_there_are_a_hundred_cases_of_every_kind() -> None:
    assert len(CASES) == 100
    assert not set(CASES) & set(PASSED_OVER)


def test_the_size_of_every_axis_is_known(subtests: pytest.Subtests) -> None:
    for name, case in CASES.items():
        with subtests.test(name=name):
            parsed = case.spec.parsed
            assert parsed is not None
            of_outputs = {axis for axes in parsed.outputs for axis in axes if not axis.isdigit()}
            assert of_outputs <= {*parsed.axes, *case.spec.size_rules.defined}


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, "right"),
        ({"error": "killed by SIGSEGV"}, "LOST"),
        ({"failures": [failing("vjp")]}, "FALSE ALARM"),
        ({"failures": [failing("vjp")], "explained": {"vmap float64": "1"}}, "FALSE ALARM"),
        ({"failures": [failing("vmap")], "explained": {"vmap float32": "1"}}, "FALSE ALARM"),
        ({"failures": [failing("vmap")], "explained": {"vmap float64": "1"}}, "defect found"),
        ({"explained": {"vmap float64": "1"}}, "right"),
        ({"failures": [failing("vjp", "UNRESOLVED")]}, "unresolved"),
        ({"failures": [failing("vjp", "UNSUPPORTED")]}, "refuses"),
    ],
)
def test_what_an_outcome_is_called(fields, verdict: str) -> None:
    assert outcome(**fields).verdict == verdict


def test_each_bar_can_be_missed() -> None:
    assert all(met for *_, met in bars([outcome()]))
    unresolved = Outcome("y", rows={"PASS": 90, "UNRESOLVED": 10})
    wrong = outcome("z", failures=[failing("vjp")])
    lost = outcome("l", error="exit code 1")
    assert [met for *_, met in bars([unresolved, wrong, lost])] == [False, False, False]
    assert "z" in as_markdown(FACTS, [wrong])
    assert "MISMATCH vjp (float64)" in as_markdown(FACTS, [wrong])
    assert "median 2.0 s" in times([outcome(), lost])


@pytest.mark.parametrize(("fields", "missed"), [({}, 0), ({"seconds": 20.1}, 1), ({"megabytes": 1001}, 1)])
def test_the_costly_operators_have_bars_of_time_and_memory(fields: dict[str, float], missed: int) -> None:
    slow = dataclasses.replace(outcome(), **fields)
    assert [met for *_, met in bars([outcome(), slow], costly=True)].count(False) == missed
    assert all(met for *_, met in bars([slow]))
    page = as_markdown(FACTS | {"costly": True}, [slow])
    assert page.count("MISSED") == missed
    assert "`python -m benchmarks.operators --costly`" in page


def test_a_process_that_ends_without_a_report_is_lost() -> None:
    with mock.patch.object(apart.sys, "executable", "/bin/false"):
        lost = judge_apart("neg", 0)
    assert lost.verdict == "LOST"
    assert lost.error is not None
    assert lost.error.startswith("exit code 1 after")


@pytest.mark.parametrize(
    ("changed", "explained"),
    [
        ({}, True),
        ({"check": "vjp"}, False),
        ({"dtype": "float64"}, False),
        ({"wrong": (wrong_result("z_bar"), wrong_result("y_bar"))}, False),  # another result is wrong, too
        ({"wrong": (wrong_result("z_bar", "z is 0"),)}, False),
    ],
)
def test_which_failures_a_defect_explains(changed, explained: bool) -> None:
    defect = Defect("a title", ("z_bar",), ("points",), ("float32",), ("overflow",))
    assert defect.explains(failing_row(**changed)) is explained


def test_a_row_without_a_diagnosis_is_explained_by_no_defect() -> None:
    row = dataclasses.replace(failing_row(), failure=None)
    assert not Defect("a title", ("z_bar",), ("points",), ("float32",)).explains(row)


def test_every_defect_has_its_section() -> None:
    pages = (Path(__file__).parents[1] / "docs" / "found").glob("*.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    taken_back = (
        (Path(__file__).parents[1] / "docs" / "found.md").read_text(encoding="utf-8").partition("## Withdrawn")[2]
    )
    titles = {defect.title for case in CASES.values() for defect in case.defects}
    lost = {title for title in titles if f"\n## {title}\n" not in text}
    assert lost < titles
    assert {title for title in lost if f"\n- {title.partition('.')[0]}: " not in taken_back} == set()


def test_an_unknown_operator_is_refused() -> None:
    result = CliRunner().invoke(app, ["nag"])
    assert result.exit_code == 2
    assert "unknown operator" in result.output


@pytest.mark.soak
def test_from_end_to_end(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["neg", "--out", str(tmp_path / "x.json")])
    assert result.exit_code == 0, result.output
    assert campaign(tmp_path / "x.json").kept["neg"].verdict == "right"
