"""Solutions of problems in KernelBench's form: right ones pass, wrong and cheating ones do not, and it is said why."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from parity_tests import OpSpec, Report
from parity_tests.cli.app import app
from parity_tests.cli.case_file import CaseError
from parity_tests.cli.sources import kernelbench
from parity_tests.cli.sources.problem_inputs import ProblemInputs, problem_inputs
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.selection import select_checks, select_precisions, select_samples
from parity_tests.suite.cli.evaluate.kernelbench_problems import CHEATS, PROBLEMS, Problem, cheating

OPTIONS = ("--quick", "--only", "forward,vjp,shortcuts", "--no-isolate", "--device", "cpu")


def _summaries(problem: Problem, folder: Path, given: bool) -> dict[str, dict]:
    """The record of each solution, all of which are judged by one oracle."""
    solutions = {"right": problem.right, "wrong": problem.wrong_backward}
    solutions |= {cheat: cheating(problem, cheat) for cheat in CHEATS}
    (folder / "problem.py").write_text(problem.text)
    read = kernelbench.Problem.of(folder / "problem.py", folder)
    candidates = []
    for name, text in solutions.items():
        path = folder / f"{name.replace(' ', '_').replace(',', '')}.py"
        path.write_text(text)
        candidates.append(read.candidate(read.solution(path, folder)).named(name, None))
    spec = read.spec(read.solution(folder / "right.py", folder), "problem", given)
    assert isinstance(spec, OpSpec), spec
    checks, precisions = select_checks(["forward", "vjp", "shortcuts"]), select_precisions(["float32"])
    plan = Plan(spec, candidates, checks, precisions, "cpu", 0, lambda row: "", samples=select_samples(True))
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return {record["candidate"]: record for record in report.as_dict()["summary"]}


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True], ids=["sizes", "given"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_solution_is_judged_and_told_apart(
    name: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "problem", raising=False)  # of another test
    found = _summaries(PROBLEMS[name], tmp_path, given)
    assert found["right"]["verdict"] == "PASS", json.dumps(found["right"])
    assert (found["wrong"]["verdict"], found["wrong"]["check"]) == ("MISMATCH", "vjp")
    for cheat, (_, reason) in CHEATS.items():
        assert found[cheat]["verdict"] == "MISMATCH", cheat
        assert found[cheat]["check"] == "shortcuts", found[cheat]
        assert reason in found[cheat]["reason"], found[cheat]


def _evaluate(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["evaluate", *arguments], env={"COLUMNS": "300"})
    return ran.exit_code, ran.output


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_the_command_and_its_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, solution, written = (tmp_path / name for name in ("problem.py", "solution.py", "report.json"))
    problem.write_text(PROBLEMS["gelu"].text)
    solution.write_text(PROBLEMS["gelu"].wrong_backward)
    files = ("--json", str(written), "--failures", str(tmp_path / "failures"))
    code, said = _evaluate(str(problem), str(solution), *OPTIONS, *files)
    assert code == 1, said
    given, sizes = json.loads(written.read_text())["summary"]
    assert (given["op"], sizes["op"]) == ("problem, get_inputs()", "problem")
    for record in (given, sizes):
        assert (record["candidate"], record["verdict"], record["check"]) == ("ModelNew", "MISMATCH", "vjp")
        assert record["reason"].startswith("x_bar ")
        assert record["dtype"] == "float32"
    assert sizes["smallest"]["sizes"] == {"n": 1, "m": 1}
    assert sizes["smallest"]["entries"].keys() == {"x", "output_bar"}
    monkeypatch.chdir(tmp_path)
    again = CliRunner().invoke(app, [*sizes["replay"].split()[1:]], env={"COLUMNS": "300"})
    assert (again.exit_code, "x_bar" in again.output) == (1, True), again.output


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        ("import nowhere\n", "solution.py, line 1: ModuleNotFoundError: No module named 'nowhere'"),
        ("import torch\n", "solution.py: defines no ModelNew"),
        ("class ModelNew:\n    def __init__(self, one):\n        pass\n", "solution.py: ModelNew: TypeError: "),
    ],
    ids=["does not run", "no class", "is not made"],
)
def test_a_solution_that_cannot_be_used(tmp_path: Path, solution: str, reason: str) -> None:
    (tmp_path / "problem.py").write_text(PROBLEMS["gelu"].text)
    (tmp_path / "solution.py").write_text(solution)
    paths = (str(tmp_path / "problem.py"), str(tmp_path / "solution.py"))
    code, _ = _evaluate(*paths, *OPTIONS, "--json", str(tmp_path / "report.json"))
    data = json.loads((tmp_path / "report.json").read_text())
    assert (code, data["passed"]) == (2, False)
    assert [record["op"] for record in data["summary"]] == ["problem, get_inputs()", "problem"]
    for record in data["summary"]:
        assert record["verdict"] == "ERROR"
        assert reason in record["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a problem and a solution, or --backendbench FOLDER"),
        (("nowhere.py", "nowhere.py"), "nowhere.py: no such file"),
        (("/dev/null", "nowhere.py"), "/dev/null: is not a regular file"),
        (("--backendbench", "nowhere"), "--backendbench nowhere: is no folder"),
        (("--op", "add__Tensor"), "--op is about a folder of operators"),
    ],
)
def test_what_cannot_be_evaluated(arguments: tuple[str, ...], message: str) -> None:
    code, said = _evaluate(*arguments)
    assert (code, message in said) == (2, True), said


@pytest.mark.parametrize(
    ("returned", "kind"), [("(x for x in [torch.randn(2, 3)])", "generator"), ("torch.randn(2, 3)", "Tensor")]
)
def test_get_inputs_must_return_a_list(tmp_path: Path, returned: str, kind: str) -> None:
    path = tmp_path / "problem.py"
    model = "class Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.tanh(x)\n"
    path.write_text(f"import torch\n{model}def get_inputs():\n    return {returned}\n")
    says = f"get_inputs() must return a list of what forward is called with, and returns a {kind}"
    with pytest.raises(CaseError, match=re.escape(says)):
        kernelbench.Problem.of(path, tmp_path)
    path.write_text(path.read_text().replace(returned, "(torch.randn(2, 3),)"))
    assert [*kernelbench.Problem.of(path, tmp_path).inputs] == ["x"]


# What is read into a problem.


def _inputs(text: str, folder: Path) -> ProblemInputs:
    (folder / "problem.py").write_text(text)
    read = kernelbench.Problem.of(folder / "problem.py", folder)
    sizes = {n for p in read.model.parameters() for n in p.shape}
    return problem_inputs([*read.inputs], [*read.inputs.values()], read.model, (), sizes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rms_norm", "x: (n,m,8)"),
        ("softmax", "x: (n,m)"),
        ("linear_relu", "x: (n,12)"),
        ("hinge_loss", "predictions: (n,m), targets: (m)"),
        ("cross_entropy", "logits: (n,m), labels: (n) integer(0,m)"),
        ("transposed_product", "a: (n,m), b: (n,k)"),
        ("convolution", "x: (n,2,m,k)"),
    ],
)
def test_the_axes_that_may_have_other_sizes(tmp_path: Path, name: str, text: str) -> None:
    assert _inputs(PROBLEMS[name].text, tmp_path).text() == text


@pytest.mark.slow
def test_a_problem_of_a_billion_numbers_is_judged_at_smaller_sizes(tmp_path: Path) -> None:
    text = PROBLEMS["softmax"].text.replace("torch.rand(64, 32)", "torch.rand(2**15, 2**15)")
    (tmp_path / "problem.py").write_text(text)
    (tmp_path / "solution.py").write_text(PROBLEMS["softmax"].right)
    read = kernelbench.Problem.of(tmp_path / "problem.py", tmp_path)
    new = read.solution(tmp_path / "solution.py", tmp_path)
    given = read.spec(new, "problem", given=True)
    assert isinstance(given, NotBuilt)
    assert (given.expected, given.reason) == (
        True,
        "get_inputs() has 1,073,741,824 numbers; it is judged at smaller sizes only",
    )
    sizes = read.spec(new, "problem", given=False)
    assert isinstance(sizes, OpSpec)
    assert sizes.signature == "(n,m)->(n,m)"


@pytest.mark.slow
def test_a_solution_for_the_given_sizes_is_judged_at_these_alone(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEMS["softmax"].text)
    fixed = PROBLEMS["softmax"].right.replace(
        "return Fused", "assert x.shape == (64, 32), 'other sizes'\n        return Fused"
    )
    (tmp_path / "solution.py").write_text(fixed)
    read = kernelbench.Problem.of(tmp_path / "problem.py", tmp_path)
    new = read.solution(tmp_path / "solution.py", tmp_path)
    assert isinstance(read.spec(new, "problem", given=True), OpSpec)
    sizes = read.spec(new, "problem", given=False)
    assert isinstance(sizes, NotBuilt)
    assert (sizes.expected, sizes.reason) == (True, "at n=5, m=3 it raises AssertionError: other sizes")


def test_parameters_are_shared_by_name_or_by_the_seed() -> None:
    class Mine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
            self.a = torch.nn.Parameter(torch.tensor([3.0, 4.0]))

    class Theirs(torch.nn.Module):
        def __init__(self, a: float) -> None:
            super().__init__()
            self.first = torch.nn.Parameter(torch.tensor([a, 4.0]))
            self.second = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    assert kernelbench.shared_parameters(Mine(), Mine()) == ["b", "a"]
    assert kernelbench.shared_parameters(Mine(), Theirs(3.0)) == ["second", "first"]
    assert kernelbench.shared_parameters(Mine(), Theirs(5.0)) == ["first", "second"]
    assert kernelbench.shared_parameters(Mine(), torch.nn.Linear(2, 2)) is None


_FUSED = """
import torch

class {name}(torch.nn.Module):
    def forward(self, b, x, w):
        return {body}

def get_inputs():
    return [torch.randn(5), torch.randn(4, 3), torch.randn(3, 5)]

def get_init_inputs():
    return []
"""
_ONCE = """
from torch.autograd.function import once_differentiable

class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, b, x, w):
        y = torch.relu(x @ w + b)
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar):
        x, w, y = ctx.saved_tensors
        y_bar = y_bar * (y > 0)
        return y_bar.sum(0), y_bar @ w.T, x.T @ y_bar
"""


@pytest.mark.slow
def test_no_refusal_of_a_derivative_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("problem.py").write_text(_FUSED.format(name="Model", body="torch.relu(torch.addmm(b, x, w))"))
    Path("refuses.py").write_text(_FUSED.format(name="ModelNew", body="torch._addmm_activation(b, x, w)"))
    Path("right.py").write_text(_FUSED.format(name="ModelNew", body="Fused.apply(b, x, w)") + _ONCE)
    options = ("--only", "forward,vjp,vjp_partial,purity", "--no-isolate", "--device", "cpu")
    code, text = _evaluate("problem.py", "refuses.py", "--json", "refuses.json", *options)
    report = json.loads(Path("refuses.json").read_text())
    assert (code, report["passed"]) == (1, False), text
    assert {record["verdict"] for record in report["summary"]} == {"UNSUPPORTED"}
    assert "derivative for aten::_addmm_activation is not implemented" in report["summary"][0]["reason"]
    code, text = _evaluate("problem.py", "right.py", *options)
    assert code == 0, text
