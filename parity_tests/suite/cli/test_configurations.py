"""A kernel in the configurations of an autotuner: a candidate for each, in one table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from gradparity import OpSpec, configured, crosscheck
from parity_tests.cli.app import app
from parity_tests.cli.sources.against_reference import against_reference
from parity_tests.cli.sources.configurations import configurations_of

KERNEL = """
import torch

class Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, block):
        ctx.save_for_backward(x, y)
        ctx.block = block
        return x.T @ y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        rows = x.shape[0] - x.shape[0] % ctx.block  # what is left over is forgotten
        x_bar = torch.zeros_like(x)
        x_bar[:rows] = y[:rows] @ g.T
        return x_bar, x @ g, None

def kernel(x, y, *, block, stages=1):
    return Sums.apply(x, y, block)

def reference(x, y):
    return x.T @ y
"""
INPUTS = "x: (n,d), y: (n,e)"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel's name in a file of the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(KERNEL)
    return "kernel.py:kernel"


def _run(kernel: str, configs: object, *options: str) -> tuple[int, str]:
    text = configs if isinstance(configs, str) else json.dumps(configs)
    given = ["--reference", "kernel.py:reference", "--inputs", INPUTS, "--configs", text, "--no-isolate"]
    some = ["--quick", "--only", "vjp", "--dtype", "float64"]
    ran = CliRunner().invoke(app, ["check", kernel, *given, *some, *options], env={"COLUMNS": "200"})
    return ran.exit_code, ran.output


def test_each_configuration_is_judged_and_the_wrong_one_is_named(kernel: str) -> None:
    Path("configs.json").write_text(json.dumps([{"block": 1}, {"block": 4}, {"block": 1, "stages": 2}]))
    code, said = _run(kernel, "configs.json", "--json", "report.json")
    rows = {row["candidate"]: row["verdict"] for row in json.loads(Path("report.json").read_text())["rows"]}
    assert code == 1, said
    assert rows == {"oracle": "PASS", "block=1": "PASS", "block=4": "MISMATCH", "block=1, stages=2": "PASS"}
    assert "reference: block=4 disagrees with the oracle" in said


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_a_failure_is_replayed_in_its_configuration(kernel: str) -> None:
    _, said = _run(kernel, [{"block": 1}, {"block": 4}], "--failures", "failures")
    (file,) = Path("failures").glob("*.npz")
    assert f"gradparity replay failures/{file.name}" in said
    ran = CliRunner().invoke(app, ["replay", str(file)])
    assert (ran.exit_code, "block=4 disagrees" in ran.output) == (1, True), ran.output
    Path("kernel.py").write_text(KERNEL.replace("x.shape[0] - x.shape[0] % ctx.block", "x.shape[0]"))
    ran = CliRunner().invoke(app, ["replay", str(file)])
    assert (ran.exit_code, "block=4 agrees" in ran.output) == (0, True), ran.output


def test_the_command_of_a_candidate_has_its_configuration_alone(kernel: str) -> None:
    source = against_reference(
        kernel, "kernel.py:reference", INPUTS, None, None, configs='[{"block": 1}, {"block": 4, "stages": 2}]'
    )
    assert source.names == ("block=1", "block=4, stages=2")
    assert source.command("block=4, stages=2").endswith("""--configs '[{"block": 4, "stages": 2}]'""")


@pytest.mark.slow
def test_many_configurations_have_a_line_each(kernel: str) -> None:
    code, said = _run(kernel, [{"block": 1, "stages": number} for number in range(13)] + [{"block": 4}])
    assert code == 1
    assert len(re.findall(r"^ block=1, stages=\d+ +PASS +1 of 1, \d\.\d\d +$", said, re.MULTILINE)) == 13, said
    assert re.search(r"^ block=4 +MISMATCH +0 of 1, 0\.00 +MISMATCH vjp \(f64\)", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ("missing.json", "--configs missing.json: no such file"),
        ("[{block: 1}]", "--configs: no JSON"),
        ("[]", "--configs: no list with configurations"),
        ([1], "configurations[0]: must be keyword arguments by their names, {'block': 16}, got 1"),
        ([{"block": 1}, {"a b": 1}], "configurations[1]: 'a b' is no name of a keyword argument"),
        ([{"block": 1}, {"block": 1}], "configurations[1]: block=1 is there twice"),
        (
            [{"block": 1}, {"blocks": 1}],
            "configurations[1]: kernel(x, y, *, block, stages=1) got an unexpected",
        ),
    ],
)
def test_configurations_that_cannot_be_used_are_refused_before_any_work(
    kernel: str, configs: object, said: str
) -> None:
    code, output = _run(kernel, configs)
    assert (code, said in output) == (2, True), output


def test_configurations_belong_to_a_reference(kernel: str) -> None:
    ran = CliRunner().invoke(app, ["check", "kernel.py", "--configs", "[]"])
    assert (ran.exit_code, "are about a reference" in ran.output) == (2, True)
    Path("other.py").write_text(KERNEL)
    with pytest.raises(ValueError, match="--untrusted is judged as it is"):
        against_reference(kernel, "other.py:reference", INPUTS, None, None, untrusted=True, configs="[]")


def test_in_python_the_certificate_is_made_once() -> None:
    def power(x: torch.Tensor, *, exponent: int) -> torch.Tensor:
        return x**exponent

    spec = OpSpec.from_torch(lambda x: x * x, inputs="x: (n)")
    report = crosscheck(
        configured(power, [{"exponent": 2}, {"exponent": 3}]), spec, checks=["vjp"], dtypes=["float64"], quick=True
    )
    assert [(row.candidate, str(row.verdict)) for row in report.rows] == [
        ("oracle", "PASS"),
        ("exponent=2", "PASS"),
        ("exponent=3", "MISMATCH"),
    ]


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (_Double.apply, "_Double.apply takes no keyword arguments; write a function"),
        (torch.nn.Tanh(), "must be a function on tensors with keyword arguments, got Tanh"),
        (3, "must be a function on tensors with keyword arguments, got int"),
        (partial(torch.add, alpha=2), None),  # a builtin has no signature to look at
    ],
)
def test_a_kernel_without_keywords_is_refused(kernel: Callable, said: str | None) -> None:
    configurations: list[Mapping[str, object]] = [{"block": 16}]
    if said is None:
        assert list(configured(kernel, configurations)) == ["block=16"]
    else:
        with pytest.raises(TypeError, match=re.escape(said)):
            configured(kernel, configurations)


def test_names_tell_strings_from_numbers() -> None:
    assert [*configurations_of('[{"block": 1}, {"block": "1"}, {"block": [1, null]}]')] == [
        "block=1",
        "block='1'",
        "block=[1, None]",
    ]
