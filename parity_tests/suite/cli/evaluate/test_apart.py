"""By the command line: solutions in processes of their own, at a seed that is drawn; each costs its own rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from parity_tests import OpSpec, Report
from parity_tests.cli.app import app
from parity_tests.cli.sources import kernelbench
from parity_tests.cli.sources.apart import Apart
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.selection import select_checks, select_precisions, select_samples
from parity_tests.suite.cli.evaluate.backendbench_operators import IMPLEMENTATIONS
from parity_tests.suite.cli.evaluate.backendbench_operators import cheating as cheating_operator
from parity_tests.suite.cli.evaluate.kernelbench_problems import CHEATS, PROBLEMS, cheating

OPTIONS = ("--only", "forward,vjp,shortcuts", "--quick", "--device", "cpu")


class Ran(NamedTuple):
    """What a command did: its exit code, what it printed, and the JSON report."""

    code: int
    printed: str
    report: dict[str, Any]


def _run(folder: Path, *arguments: str) -> Ran:
    written = ("--json", str(folder / "report.json"), "--failures", str(folder / "failures"))
    ran = CliRunner().invoke(app, [*arguments, *OPTIONS, *written], env={"COLUMNS": "300"})
    return Ran(ran.exit_code, ran.output, json.loads((folder / "report.json").read_text()))


def _problem(folder: Path, solution: str) -> tuple[str, str, str]:
    (folder / "problem.py").write_text(PROBLEMS["gelu"].text)
    (folder / "solution.py").write_text(solution)
    return "evaluate", str(folder / "problem.py"), str(folder / "solution.py")


@pytest.mark.slow
def test_a_right_solution_passes_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    ran = _run(tmp_path, *_problem(tmp_path, PROBLEMS["gelu"].right))
    assert (ran.code, ran.report["passed"]) == (0, True), ran.printed
    seed = ran.report["environment"]["seed"]
    assert f"seed {seed}, drawn at random; --seed {seed}" in ran.printed
    assert "solutions ran in " in ran.report["environment"]["solutions"]
    assert ran.report["environment"]["solutions"] in ran.printed
    ran = _run(tmp_path, *_problem(tmp_path, PROBLEMS["gelu"].wrong_backward), "--seed", "7")
    assert (ran.code, ran.report["environment"]["seed"], "drawn" in ran.printed) == (1, 7, False), ran.printed
    assert {record["check"] for record in ran.report["summary"]} == {"vjp"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rms_norm", "hinge_loss"])
def test_each_cheat_is_named_as_in_this_process(name: str, tmp_path: Path) -> None:
    problem = PROBLEMS[name]
    texts = {"right": problem.right, "wrong": problem.wrong_backward}
    texts |= {cheat: cheating(problem, cheat) for cheat in CHEATS if "reference" not in cheat}
    (tmp_path / "problem.py").write_text(problem.text)
    read, candidates, spec = kernelbench.Problem.of(tmp_path / "problem.py", tmp_path), [], None
    for i, (own, text) in enumerate(texts.items()):
        file = tmp_path / f"solution_{i}.py"
        file.write_text(text)
        new = read.solution_apart(Path("problem.py"), Path(file.name), tmp_path, Apart(60.0))
        spec = spec or read.spec(new, "problem", given=False)
        candidates.append(read.candidate(new).named(own, None))
    assert isinstance(spec, OpSpec)
    checks, precisions = select_checks(["forward", "vjp", "shortcuts"]), select_precisions(["float32"])
    plan = Plan(spec, candidates, checks, precisions, "cpu", 0, lambda row: "", samples=select_samples(True))
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    found = {record["candidate"]: record for record in report.as_dict()["summary"]}
    assert found["right"]["verdict"] == "PASS", found["right"]
    assert (found["wrong"]["verdict"], found["wrong"]["check"]) == ("MISMATCH", "vjp"), found["wrong"]
    for cheat in candidates[2:]:
        assert found[cheat.name]["check"] == "shortcuts", found[cheat.name]
        assert CHEATS[cheat.name][1] in found[cheat.name]["reason"], found[cheat.name]


@pytest.mark.slow
def test_the_reference_is_out_of_reach(tmp_path: Path) -> None:
    ran = _run(tmp_path, *_problem(tmp_path, "from problem import Model\n\nclass ModelNew(Model):\n    pass\n"))
    assert not ran.report["passed"], ran.printed
    reasons = {record["reason"] for record in ran.report["summary"]}
    assert all("reference" in reason for reason in reasons), reasons


@pytest.mark.slow
def test_a_folder_in_which_one_crashes_and_one_ends(tmp_path: Path) -> None:
    texts = {
        "abs__default": "import ctypes\n\ndef abs__default_kernel_impl(x):\n    ctypes.string_at(0)\n",
        "relu__default": IMPLEMENTATIONS["relu__default"].right("relu__default"),
        "sigmoid__default": cheating_operator("sigmoid__default", "the operator")[0],
        "tanh__default": "import os\n\nos._exit(0)\n",
    }
    for name, text in texts.items():
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / f"{name}_implementation_v1.py").write_text(text)
    ran = _run(tmp_path, "evaluate", "--backendbench", str(tmp_path / "folder"), "--given-only")
    assert not ran.report["passed"]
    found: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    for record in ran.report["summary"]:
        op = record["op"].partition(".")[0]
        if record["verdict"] != "SKIPPED":  # PyTorch has one sample of abs
            found.setdefault(op, set()).add(record["verdict"])
            reasons[op] = record["reason"] or ""
    assert found == {"abs": {"MISMATCH"}, "relu": {"PASS"}, "sigmoid": {"MISMATCH"}, "tanh": {"ERROR"}}, ran.printed
    assert "its process crashed (SIGSEGV)" in reasons["abs"]
    assert "calls the reference's operator aten.sigmoid" in reasons["sigmoid"]
    assert "its process has ended (exit code 0), while it was loaded" in reasons["tanh"]


NORM = "import torch\n\ndef norm(x):\n    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1)\n"
KERNEL = "import torch\n\ndef kernel(x):\n    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1)\n"


@pytest.mark.slow
def test_an_untrusted_kernel_and_its_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "norm.py").write_text(NORM)
    (tmp_path / "kernel.py").write_text(KERNEL)
    reference = ("--reference", f"{tmp_path / 'norm.py'}:norm", "--inputs", "x: (n,d)", "--untrusted")
    ran = _run(tmp_path, "check", f"{tmp_path / 'kernel.py'}:kernel", *reference, "--dtype", "float32")
    assert (ran.code, ran.report["passed"]) == (0, True), ran.printed
    assert "drawn at random" in ran.printed
    (tmp_path / "kernel.py").write_text(KERNEL.replace("return x", "return 2 * x"))
    ran = _run(tmp_path, "check", f"{tmp_path / 'kernel.py'}:kernel", *reference, "--dtype", "float32")
    assert ran.code == 1, ran.printed
    monkeypatch.chdir(tmp_path)
    (failure,) = (tmp_path / "failures").glob("*-forward-*.npz")
    again = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (again.exit_code, "kernel disagrees" in again.output) == (1, True), again.output
    (tmp_path / "kernel.py").write_text(KERNEL)
    again = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (again.exit_code, "agrees with the oracle now" in again.output) == (0, True), again.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kernel.py", "--untrusted"), "kernel.py has both the spec and the candidate"),
        (("kernel.py:kernel", "--reference", "kernel.py:norm", "--untrusted"), "has both the kernel and the reference"),
        (("kernel.py:kernel", "--reference", "norm.py:norm", "--untrusted", "--no-isolate"), "leave --no-isolate out"),
        (("kernel.py:kernel", "--reference", "norm.py:norm", "--untrusted", "--only", "leaks"), "leaks looks into"),
    ],
)
def test_what_cannot_be_judged_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("norm.py").write_text(NORM)
    Path("kernel.py").write_text(KERNEL + NORM)
    inputs = ("--inputs", "x: (n,d)") if "--reference" in arguments else ()
    ran = CliRunner().invoke(app, ["check", *arguments, *inputs], env={"COLUMNS": "300"})
    assert (ran.exit_code, message in ran.output) == (2, True), ran.output
