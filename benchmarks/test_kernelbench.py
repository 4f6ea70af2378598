"""The solutions of KernelBench's problems: how they are made, what is kept, and what the page says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from benchmarks import kernelbench
from benchmarks.__main__ import app
from benchmarks.kernelbench import Judged, Outcome, campaign, measure_all, page, problems, solution, summary

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x, scale):
        return torch.tanh(x) * scale


def get_inputs():
    return [torch.rand(4, 3), 2.0]


def get_init_inputs():
    return []
"""
PASSES, FAILS = Judged(0, {"vjp PASS": 2}, "", 2.0), Judged(1, {"vjp MISMATCH": 2}, "MISMATCH vjp: x_bar", 3.0)
UNRESOLVED = Judged(2, {"vjp UNRESOLVED": 1}, "UNRESOLVED vjp: a | b", 1.0)
RIGHT = Outcome("2026-11-27T00:00:00", "abc", "Python", "level1/19_ReLU", PASSES, FAILS)
OTHERS = {
    "FALSE ALARM": replace(RIGHT, problem="level1/2_x", right=FAILS),
    "MISSED": replace(RIGHT, problem="level2/1_x", wrong=PASSES),
    "not judged": replace(RIGHT, problem="level2/3_x", right=UNRESOLVED, wrong=UNRESOLVED),
    "wrong convicted, right not judged": replace(RIGHT, problem="level2/4_x", right=UNRESOLVED),
}


def test_both_solutions_compute_the_same_and_one_has_a_wrong_gradient() -> None:
    results = []
    for at in (None, 1):
        names: dict = {}
        exec(solution(PROBLEM, at), names)
        x = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
        y = names["ModelNew"]()(x, scale=2.0)
        (x_bar,) = torch.autograd.grad(y.sum(), x)
        results.append((y.detach(), x_bar))
    (y, x_bar), (same, other) = results
    assert torch.equal(y, same)
    assert torch.equal(x_bar[:, [0, 2]], other[:, [0, 2]])
    assert torch.allclose(other[:, 1], kernelbench.FACTOR * x_bar[:, 1])


@pytest.mark.parametrize("verdict", OTHERS)
def test_what_came_of_a_problem(verdict: str) -> None:
    assert (OTHERS[verdict].verdict, RIGHT.verdict) == (verdict, "right")
    assert f"| {OTHERS[verdict].problem} | {verdict} |" in page([RIGHT, OTHERS[verdict]])


def test_the_figures_and_the_page() -> None:
    every = [*OTHERS.values(), RIGHT]
    assert summary(every)[0].startswith("1 of 5 problems")
    assert summary(every)[2] == "1 right solutions are accused, 1 wrong ones pass."
    text = page(every)
    assert "UNRESOLVED vjp: a \\| b" in text


def test_the_problems_of_a_folder(tmp_path: Path) -> None:
    for name in ("level1/10_b", "level1/9_a", "level2/1_c", "level3/1_d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(PROBLEM)
    assert [*problems(tmp_path)] == ["level1/9_a", "level1/10_b", "level2/1_c"]
    ran = CliRunner().invoke(app, ["kernelbench", str(tmp_path), "--level", "2", "--only", "9"])
    assert (ran.exit_code, "asked for" in ran.output) == (2, True), ran.output


@pytest.mark.slow
def test_a_problem_is_judged_and_a_run_that_is_resumed_judges_no_other(tmp_path: Path) -> None:
    file, out, console = tmp_path / "1_tanh.py", tmp_path / "found.json", Console(quiet=True)
    file.write_text(PROBLEM)
    its = campaign(out)
    its.keep([(RIGHT.problem, RIGHT)], lambda *_: None)
    files = {RIGHT.problem: tmp_path / "is_not_there.py", "level1/1_tanh": file}
    assert measure_all(console, files, out, resume=True) == 0
    found = campaign(out).kept
    assert found[RIGHT.problem] == RIGHT
    judged = found["level1/1_tanh"]
    assert (judged.verdict, judged.right.reason) == ("right", "")
    assert judged.wrong.reason.startswith("MISMATCH vjp: x_bar 4/12 entries wrong")


@pytest.mark.slow
def test_a_mistake_where_no_input_reaches_is_none_and_another_is_planted(tmp_path: Path) -> None:
    file = tmp_path / "1_tanh.py"
    file.write_text(PROBLEM.replace("torch.tanh(x)", "torch.tanh(torch.nn.functional.pad(x[:, 1:], (1, 0)))"))
    outcome = kernelbench.evaluated("level1/1_tanh", file)
    assert (outcome.verdict, outcome.at) == ("right", 1)
    assert outcome.wrong.errors != outcome.right.errors


@pytest.mark.slow
def test_what_takes_too_long_has_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "1_endless.py"
    file.write_text(PROBLEM.replace("return torch.tanh(x) * scale", "while True:\n            pass"))
    judged = kernelbench._judged(file, solution(file.read_text()), limit=2)
    assert judged.code < 0
    assert judged.reason == "no verdict within 2 s"
