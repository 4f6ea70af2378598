"""A problem that is judged at a part of its numbers: the rest is judged, too, or it is said that it is not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.harness.checks import given_size

_PROBLEM = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}

    def forward(self, x):
        return {value}


def get_inputs():
    return [torch.{drawn}]


def get_init_inputs():
    return []
"""
_SOLUTION = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
{made}

    def forward(self, x):
        return {value}
"""
_RELU_OF_A_GRID = """
import torch
import torch.nn as nn

BLOCKS = {blocks}


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.zeros_like(x)
        y.view(-1)[: BLOCKS * 256] = x.reshape(-1)[: BLOCKS * 256].clamp(min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        y, = ctx.saved_tensors
        return y_bar * (y > 0)


class ModelNew(nn.Module):
    def forward(self, x):
        return Relu.apply(x)
"""


@dataclass(frozen=True)
class Right:
    """A problem, and a solution that computes the same in other steps."""

    value: str
    solution: str
    drawn: str
    made: str = "        pass"


RIGHT = {
    "relu": Right("torch.relu(x)", "x.clamp(min=0)", "randn(16, 4096)"),
    "softmax": Right(
        "torch.softmax(x, -1)",
        "(lambda e: e / e.sum(-1, keepdim=True))((x - x.amax(-1, keepdim=True)).exp())",
        "randn(16, 4096)",
    ),
    "layer norm": Right(
        "F.layer_norm(x, (64,), self.w, self.b)",
        "(x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, correction=0) + 1e-5) * self.w + self.b",
        "randn(1024, 64)",
        "        self.w, self.b = nn.Parameter(torch.randn(64)), nn.Parameter(torch.randn(64))",
    ),
    "matmul": Right(
        "x @ self.w",
        "torch.einsum('nk,km->nm', x, self.w)",
        "randn(1024, 128)",
        "        self.w = nn.Parameter(torch.randn(128, 64))",
    ),
    "conv2d": Right(
        "F.conv2d(x, self.w, padding=1)",
        "sum(torch.einsum('nchw,oc->nohw', F.pad(x, (1, 1, 1, 1))[:, :, i : i + x.shape[2], j : j + x.shape[3]], "
        "self.w[:, :, i, j]) for i in range(3) for j in range(3))",
        "randn(8, 4, 40, 40)",
        "        self.w = nn.Parameter(torch.randn(6, 4, 3, 3))",
    ),
    "max pooling": Right(
        "F.max_pool2d(x, 2)",
        "x[..., : x.shape[-2] // 2 * 2, : x.shape[-1] // 2 * 2].unflatten(-1, (-1, 2)).amax(-1)"
        ".unflatten(-2, (-1, 2)).amax(-2)",
        "rand(4, 8, 64, 64)",
    ),
}
OPTIONS = ("--only", "forward,vjp,given_size", "--given-only", "--no-isolate", "--device", "cpu")


def _evaluated(folder: Path, problem: str, solution: str) -> tuple[int, str, dict]:
    (folder / "problem.py").write_text(problem)
    (folder / "solution.py").write_text(solution)
    files = ("--json", str(folder / "report.json"), "--failures", str(folder / "failures"))
    paths = (str(folder / "problem.py"), str(folder / "solution.py"))
    ran = CliRunner().invoke(app, ["evaluate", *paths, *OPTIONS, *files], env={"COLUMNS": "300"})
    return ran.exit_code, ran.output, json.loads((folder / "report.json").read_text())


def _relu(blocks: int) -> tuple[str, str]:
    problem = _PROBLEM.format(made="        pass", value="torch.relu(x)", drawn="randn(16, 4096)")
    return problem, _RELU_OF_A_GRID.format(blocks=blocks)


@pytest.mark.slow
def test_a_grid_that_reaches_the_judged_part_alone_is_convicted(tmp_path: Path) -> None:
    code, said, data = _evaluated(tmp_path, *_relu(blocks=64))
    assert code == 1, said
    assert {row["check"]: row["verdict"] for row in data["rows"] if row["candidate"] == "ModelNew"} == {
        "forward": "PASS",
        "vjp": "PASS",
        "given_size": "MISMATCH",
    }
    assert "entries wrong, all in rows 4 to 15 of 16" in said


@pytest.mark.slow
def test_the_same_with_a_grid_that_reaches_all_passes(tmp_path: Path) -> None:
    code, said, data = _evaluated(tmp_path, *_relu(blocks=256))
    (record,) = data["summary"]
    assert (code, record["verdict"]) == (0, "PASS"), said
    assert record["largest"] == {"sizes": "x (16, 4096)", "numbers": 65_536}
    assert (record["cut"], record["given_size"]) == ({"numbers": 16_384, "of": 65_536}, True)
    assert "judged at 16,384 of 65,536 numbers; values and gradients at all of them, too" in said


@pytest.mark.slow
def test_what_is_too_large_to_be_judged_is_said_beside_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_size, "MOST", 1000)
    code, said, data = _evaluated(tmp_path, *_relu(blocks=64))
    (record,) = data["summary"]
    assert (code, record["verdict"]) == (0, "PASS"), said
    assert (record["cut"], record["given_size"]) == ({"numbers": 16_384, "of": 65_536}, False)
    assert "not judged at the given size: of 65,536 numbers the oracle makes arrays of" in said
    (verdict,) = (line for line in said.splitlines() if line.startswith("All agree"))
    assert verdict.endswith("judged at 16,384 of 65,536 numbers, and at no larger size")


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_solution_passes_at_the_given_size(name: str, tmp_path: Path) -> None:
    right = RIGHT[name]
    problem = _PROBLEM.format(made=right.made, value=right.value, drawn=right.drawn)
    solution = _SOLUTION.format(made=right.made, value=right.solution)
    code, said, data = _evaluated(tmp_path, problem, solution)
    assert code == 0, said
    (row,) = (row for row in data["rows"] if row["check"] == "given_size")
    assert (row["verdict"], row["comparisons"] > 50_000) == ("PASS", True), said
    assert 0 < row["error_over_bound"] < 1 or name in ("relu", "max pooling"), said
