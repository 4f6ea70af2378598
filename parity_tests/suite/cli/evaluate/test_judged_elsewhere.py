"""What cannot be judged at one kind of a problem's inputs counts as judged if the same check passes at another."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.judged_elsewhere import judged_elsewhere
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE, Row

OF_PROBLEMS = {"problem, get_inputs()": "problem", "problem": "problem", "another": "another"}


def _row(op: str, verdict: Verdict, check: str = "vjp", candidate: str = "ModelNew") -> Row:
    return Row(op, candidate, check, "float32", "cpu", verdict, 0.0, 3, "too small" if verdict != "PASS" else "")


def test_what_passes_at_other_inputs_is_skipped_and_says_where_it_is_judged() -> None:
    report = Report({}, [_row("problem, get_inputs()", Verdict.UNRESOLVED), _row("problem", Verdict.PASS)])
    assert report.exit_code == 2
    judged_elsewhere(report, OF_PROBLEMS)
    row = report.rows[0]
    assert row.verdict is Verdict.SKIPPED
    assert row.reason == "cannot be judged at these inputs (too small), and is judged in 'problem'"
    assert (report.exit_code, report.passed) == (0, True)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([_row("problem", Verdict.PASS, "forward")], 2),
        ([_row("another", Verdict.PASS)], 2),
        ([_row("problem", Verdict.PASS, candidate=ORACLE), _row("problem", Verdict.PASS, candidate="mine")], 2),
        ([_row("problem", Verdict.UNRESOLVED)], 2),
        ([_row("problem", Verdict.MISMATCH)], 1),
    ],
    ids=["another check", "another problem", "another candidate", "nowhere", "wrong there"],
)
def test_what_is_judged_nowhere_else_stays(rows: list[Row], code: int) -> None:
    report = Report({}, [_row("problem, get_inputs()", Verdict.UNRESOLVED), *rows])
    judged_elsewhere(report, OF_PROBLEMS)
    assert report.rows[0].verdict is Verdict.UNRESOLVED
    assert report.exit_code == code


def test_a_mismatch_is_never_excused() -> None:
    report = Report({}, [_row("problem, get_inputs()", Verdict.MISMATCH), _row("problem", Verdict.PASS)])
    judged_elsewhere(report, OF_PROBLEMS)
    assert report.exit_code == 1


PROBLEM = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.layer_norm(x, (x.shape[-1],)).mean(-1) + self.bias * torch.tanh(x).sum(-1)


def get_inputs():
    return [torch.rand(4, 6)]


def get_init_inputs():
    return []
"""
WRONG = (
    "\n\nclass Wrong(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, y):\n        return y.clone()\n"
)
WRONG += "\n    @staticmethod\n    def backward(ctx, y_bar):\n        return 1.1 * y_bar\n"


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_a_problem_whose_result_is_zero_at_its_own_inputs(tmp_path: Path, wrong: bool) -> None:
    problem, solution = tmp_path / "problem.py", tmp_path / "solution.py"
    problem.write_text(PROBLEM)
    text = PROBLEM.replace("class Model(", "class ModelNew(")
    solution.write_text(
        text.replace("return torch.layer", "return Wrong.apply(torch.layer").replace("sum(-1)", "sum(-1))") + WRONG
        if wrong
        else text
    )
    failures = str(tmp_path / "failures")
    options = "-v", "--quick", "--only", "forward,vjp", "--no-isolate", "--seed", "1", "--failures", failures
    ran = CliRunner().invoke(app, ["evaluate", str(problem), str(solution), *options], env={"COLUMNS": "300"})
    assert ran.exit_code == wrong, ran.output
    assert "cannot be judged at these inputs" in ran.output
