"""A kernel against the PyTorch code that it replaces, by one command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.case_file import load_module
from parity_tests.harness.judging.reproducer import importable

KERNEL = """
import torch

def norm(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w

class Right(torch.autograd.Function):
    projected = 1.0

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return norm(x, w)

    @classmethod
    def gradients(cls, ctx, y_bar):
        x, w = ctx.saved_tensors
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        projection = ((y_bar * w) * x * r).mean(-1, keepdim=True) * x * r
        return r * (y_bar * w - cls.projected * projection), (y_bar * x * r).sum(0)

    @staticmethod
    def backward(ctx, y_bar):
        return Right.gradients(ctx, y_bar)

class Wrong(Right):
    projected = 0.0

    @staticmethod
    def backward(ctx, y_bar):
        return Wrong.gradients(ctx, y_bar)

right, wrong = Right.apply, Wrong.apply

def branching(x, w):
    if x.sum() > 0:
        return x
    return w * x
"""
OPTIONS = ("--quick", "--only", "forward,vjp", "--dtype", "float64", "--no-isolate")


def _run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["check", *arguments], env={"COLUMNS": "300"})
    return ran.exit_code, ran.output


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_a_right_kernel_passes_and_a_wrong_one_is_convicted(case: Callable[..., str], tmp_path: Path) -> None:
    file = case(KERNEL, "kernel.py")
    reference = ("--reference", f"{file}:norm", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1")
    files = ("--json", str(tmp_path / "report.json"), "--failures", str(tmp_path / "failures"))
    code, said = _run(f"{file}:right", *reference, *files, *OPTIONS)
    assert (code, "All agree" in said) == (0, True), said
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert {(row["op"], row["check"]) for row in rows} >= {("norm", "forward"), ("norm", "vjp")}
    code, said = _run(f"{file}:wrong", *reference, *files, *OPTIONS)
    assert code == 1, said
    assert "x_bar" in said
    assert "--sizes 'd >= 1' --only vjp" in said  # the command that judges it again


@pytest.mark.slow
@pytest.mark.usefixtures("wide", "shrinking")
def test_a_failure_is_replayed_without_a_case_file(
    case: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = case(KERNEL, "kernel.py")
    reference = ("--reference", f"{file}:norm", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1")
    _, said = _run(f"{file}:wrong", *reference, "--failures", str(tmp_path / "failures"), *OPTIONS)
    (failure,) = (tmp_path / "failures").glob("*.npz")
    assert f"gradparity replay {failure}" in said
    assert "--case" not in said
    monkeypatch.chdir(Path(file).parent)
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "x_bar" in ran.output) == (1, True), ran.output
    assert f"running check {file}:wrong --reference {file}:norm" in ran.stderr
    Path(file).write_text(KERNEL.replace("projected = 0.0", "projected = 1.0"))
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "agrees with the oracle now" in ran.output) == (0, True), ran.output
    monkeypatch.chdir(tmp_path / "failures")
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "is outside of the current folder" in ran.output) == (2, True), ran.output


def test_no_script_imports_a_file_that_was_run_by_its_path(case: Callable[..., str]) -> None:
    kernel = load_module(Path(case(KERNEL, "kernel.py")))
    assert importable(kernel.norm) is None
    assert importable(kernel.right) is None
    assert importable(torch.nn.functional.relu) == ("torch.nn.functional", "relu")


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("kernel", "reference", "inputs", "message"),
    [
        (":right", ":branching", "x: (n,d), w: (d)", "line 36, in branching: torch.export cannot read the reference"),
        (":right", ":nothing", "x: (n,d), w: (d)", "has no nothing"),
        (":nothing", ":norm", "x: (n,d), w: (d)", "has no nothing"),
        (":right", ":norm", "x (n,d)", "cannot be read from 'x (n,d)' on"),
        (":right", ":norm", None, "--reference needs the inputs"),
        ("", ":norm", "x: (n,d), w: (d)", "write the file and the name in it"),
        (":Right", ":norm", "x: (n,d), w: (d)", "give its apply: Right.apply"),
    ],
    ids=["control flow", "no reference", "no kernel", "inputs", "no inputs", "no name", "class"],
)
def test_what_cannot_be_used(
    case: Callable[..., str], kernel: str, reference: str, inputs: str | None, message: str
) -> None:
    file = case(KERNEL, "kernel.py")
    given = () if inputs is None else ("--inputs", inputs)
    code, said = _run(f"{file}{kernel}", "--reference", f"{file}{reference}", *given, *OPTIONS)
    assert code == 2, said
    assert message in " ".join(said.split()), said
    assert "def forward" not in said  # of torch.export's own graphs


@pytest.mark.usefixtures("wide")
def test_inputs_without_a_reference(case: Callable[..., str]) -> None:
    code, said = _run(case(KERNEL, "kernel.py"), "--inputs", "x: (n,d), w: (d)")
    assert (code, "--inputs and --sizes are about a reference" in said) == (2, True), said
