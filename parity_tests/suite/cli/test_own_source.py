"""Sources of cases added through the public door: each is a record, and a command with all options follows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from parity_tests import Candidate, OpSpec
from parity_tests.cli.app import add_command
from parity_tests.cli.commands.replay import replay
from parity_tests.cli.failure_file import ReplayError
from parity_tests.cli.sources import SOURCES
from parity_tests.cli.sources.case_files import CaseFile
from parity_tests.cli.sources.catalog import CatalogOperator
from parity_tests.cli.sources.source import FailedCandidate, SourceCommand
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import ORACLE

HERE = ("--no-isolate",)
IN_TWO_PROCESSES = pytest.param(("-j", "2"), marks=pytest.mark.slow, id="in two processes")
HOW = pytest.mark.parametrize("how", [pytest.param(HERE, id="in this process"), IN_TWO_PROCESSES])


# A source like a sweep: one command, several operators.


class _Exponential(torch.autograd.Function):
    """exp(scale x), with the gradient of another scale."""

    @staticmethod
    def forward(ctx, x, scale, claimed):
        y = torch.exp(scale * x)
        ctx.save_for_backward(y)
        ctx.claimed = claimed
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return ctx.claimed * y * y_bar, None, None


@dataclass(frozen=True)
class Exponential:
    """exp(scale x), whose implementation has the gradient of the scale `claimed`."""

    scale: float
    claimed: float
    names: tuple[str, ...] = ("exponential",)
    file: Path | None = None
    files: tuple[Path, ...] = ()
    origin: None = None

    def load(self) -> tuple[OpSpec, list[Candidate]]:
        import jax.numpy as jnp

        spec = OpSpec(f"exponential_{self.scale:g}", primal=lambda x: jnp.exp(self.scale * x), signature="(n,m)->(n,m)")
        return spec, [Candidate(lambda x: _Exponential.apply(x, self.scale, self.claimed), self.names[0], {})]

    def command(self, candidate: str) -> str:
        return f"exponentials {self.scale:g} --claimed {self.claimed:g}"


def exponentials(
    scales: Annotated[list[float], typer.Argument(help="Which operators are judged.")],
    claimed: Annotated[float | None, typer.Option(help="The scale of all gradients, if it is another.")] = None,
) -> Sequence[Exponential]:
    if 0.0 in scales:
        raise ValueError("the scale 0 makes a constant")
    return [Exponential(scale, scale if claimed is None else claimed) for scale in scales]


def of_failure(failed: FailedCandidate) -> Exponential | None:
    found = re.fullmatch(r"exponential_(.+)", failed.op)
    return Exponential(float(found[1]), 2.0) if found else None


EXPONENTIALS = SourceCommand("exponentials", "Judge exponentials.", exponentials, of_failure)


def judge(command: SourceCommand, folder: Path, *arguments: str) -> tuple[Result, dict]:
    """Run the command, beside those that there are; returns what it prints, and its report."""
    app = typer.Typer()
    for each in (*SOURCES, command):
        add_command(app, each)
    few = ("--only", "forward,vjp", "--dtype", "float64", "--device", "cpu", "--quick")
    files = ("--failures", str(folder / "failures"), "--json", str(folder / "report.json"))
    result = CliRunner().invoke(app, [command.name, *arguments, *few, *files], env={"COLUMNS": "300"})
    written = folder / "report.json"
    return result, json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}


def verdicts(report: dict) -> dict[tuple[str, str, str], Verdict]:
    """By operator, candidate and check."""
    return {(row["op"], row["candidate"], row["check"]): Verdict(row["verdict"]) for row in report["rows"]}


@pytest.mark.slow
def test_every_operator_has_its_own_oracle(tmp_path: Path) -> None:
    result, report = judge(EXPONENTIALS, tmp_path, "1", "3", *HERE)
    assert result.exit_code == 0, result.output
    found = verdicts(report)
    ops = ("exponential_1", "exponential_3")
    assert found.keys() == {(op, ORACLE, "vjp") for op in ops} | {
        (op, "exponential", check) for op in ops for check in ("forward", "vjp")
    }
    assert {*found.values()} == {Verdict.PASS}


@pytest.mark.slow
@HOW
def test_a_mistake_in_one_operator_fails_its_rows_alone(tmp_path: Path, how: tuple[str, ...]) -> None:
    result, report = judge(EXPONENTIALS, tmp_path, "1", "2", "3", "--claimed", "2", *how)
    assert result.exit_code == 1, result.output
    wrong = {key for key, verdict in verdicts(report).items() if verdict is Verdict.MISMATCH}
    assert wrong == {("exponential_1", "exponential", "vjp"), ("exponential_3", "exponential", "vjp")}


@pytest.mark.slow
def test_a_failure_says_how_to_judge_it_again(tmp_path: Path) -> None:
    _, report = judge(EXPONENTIALS, tmp_path, "1", "2", "--claimed", "2", *HERE)
    options = "--only vjp --dtype float64 --device cpu --seed 0 --quick"
    again = f"gradparity exponentials 1 --claimed 2 {options}"
    assert [failure["replay"] for failure in report["failures"]] == [again]


@pytest.mark.slow
def test_a_failure_is_replayed(tmp_path: Path, shrinking: None) -> None:
    judge(EXPONENTIALS, tmp_path, "3", "--claimed", "2", *HERE)
    (path,) = (tmp_path / "failures").glob("*.npz")
    report, gone = replay(path, commands=(*SOURCES, EXPONENTIALS))
    assert not gone
    assert [(row.op, row.verdict) for row in report.rows] == [("exponential_3", Verdict.MISMATCH)]
    with pytest.raises(ReplayError, match="was found without a case file, as from Python"):
        replay(path)


def test_its_own_arguments_and_the_shared_options(tmp_path: Path) -> None:
    result, _ = judge(EXPONENTIALS, tmp_path, "--help")
    assert result.exit_code == 0
    texts = ("Which operators are judged.", "--claimed", "--only", "--trial-timeout", "Judge exponentials.")
    assert [text for text in texts if text not in result.output] == []
    result, _ = judge(EXPONENTIALS, tmp_path, "0")
    assert (result.exit_code, result.output) == (2, "gradparity: the scale 0 makes a constant\n")


def test_two_arguments_of_one_name_are_refused() -> None:
    def clashing(quick: bool = False) -> Sequence[Exponential]:
        return []

    with pytest.raises(ValueError, match="duplicate parameter name: 'quick'"):
        add_command(typer.Typer(), SourceCommand("clashing", "", clashing, of_failure))


# Any mixture of operators.

CASE = """\
import torch
from parity_tests import OpSpec

spec = OpSpec("cube", primal=lambda x: x * x * x, signature="(n,m)->(n,m)")


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return FACTOR * x * x * y_bar


candidates = {"attn_composite": Cube.apply, "product": lambda x: x * x * x}
"""


def file_and_catalog(case: Path, op: str, candidate: str) -> Sequence[CaseFile | CatalogOperator]:
    return [CaseFile(case), CatalogOperator(op, (candidate,))]


MIXED = SourceCommand("mixed", "A case file and an operator of the catalog.", file_and_catalog, lambda failed: None)


def mixed(folder: Path, factor: int, how: tuple[str, ...]) -> tuple[int, set[tuple[str, str, str]], list[str]]:
    """Judge the cube's candidates, and attn's; returns the exit code, which rows do not pass, and whose failures."""
    case = folder / "cube.py"
    case.write_text(CASE.replace("FACTOR", str(factor)), encoding="utf-8")
    result, report = judge(MIXED, folder, str(case), "attn", "attn_composite", *how)
    found = verdicts(report)
    calls = (("cube", "attn_composite"), ("cube", "product"), ("attn", "attn_composite"))
    assert found.keys() == {(op, ORACLE, "vjp") for op in ("cube", "attn")} | {
        (*call, check) for call in calls for check in ("forward", "vjp")
    }
    not_passed = {key for key, verdict in found.items() if verdict is not Verdict.PASS}
    return result.exit_code, not_passed, [failure["op"] for failure in report["failures"]]


@pytest.mark.slow
def test_a_case_file_and_the_catalog_in_one_run(tmp_path: Path) -> None:
    assert mixed(tmp_path, 3, HERE) == (0, set(), [])


@pytest.mark.slow
@HOW
def test_a_mistake_in_the_file_fails_no_row_of_the_catalog(tmp_path: Path, how: tuple[str, ...]) -> None:
    """Not even the one of a candidate of the same name."""
    assert mixed(tmp_path, 2, how) == (1, {("cube", "attn_composite", "vjp")}, ["cube"])
