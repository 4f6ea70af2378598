"""`gradparity replay` of a file of `gradparity audit --arrays`: an operation by the function as it is now."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app

_MODEL = """
import torch
from torch import nn

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, scale, x, *rest):
        ctx.scale = scale
        return x.shape[0], w.sum() * scale, x * scale + rest[0]

    @staticmethod
    def backward(ctx, _, b, c):
        return b.expand(3) * ctx.scale, None, 3 * ctx.scale * c, c

class Mended(Wrong):
    @staticmethod
    def backward(ctx, _, b, c):
        return b.expand(3) * ctx.scale, None, ctx.scale * c, c

def by_operators(w, scale, x, y):
    return x.shape[0], w.sum() * scale, x * scale + y

def detached(w, scale, x, y):
    return by_operators(w, scale, x.detach(), y)

def longer(w, scale, x, y):
    return x.shape[0], w.sum() * scale, torch.cat([x, x])

def in_float64(w, scale, x, y):
    return x.shape[0], w.sum() * scale, x.double() * scale

def of_one(w):
    return w

def one_result(w, scale, x, y):
    return w.sum()

def wrong():
    w, x = torch.arange(3.0, requires_grad=True), torch.randn(4, generator=torch.Generator().manual_seed(0))
    x = x.bfloat16().requires_grad_()

    def step():
        _, a, b = Wrong.apply(w, 2.0, x, x)
        return a + b.float().sum()

    return step

def not_finite():
    x = torch.tensor([[0.0, 1.0]], requires_grad=True)
    return lambda: x.mul(1.0).sqrt().sum()

class Given(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        return by(x)

    @staticmethod
    def backward(ctx, c):
        return 3 * c, None

def of_object():
    x = torch.ones(2, requires_grad=True)
    return lambda: Given.apply(x, torch.neg).sum()
"""


def _run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "300"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("audited") / "model.py"
    file.write_text(_MODEL)
    for name in ("wrong", "not_finite", "of_object"):
        assert _run("audit", f"{file}:{name}", "--arrays", file.with_name(name))[0] == 1
    return file


def _file(model: Path, name: str = "wrong") -> Path:
    (file,) = model.with_name(name).glob("*.npz")
    return file


def test_a_function_is_judged_as_it_is_now(model: Path) -> None:
    code, output = _run("replay", _file(model), "--case", f"{model}:Wrong")
    assert code == 1
    head, *rows = output.splitlines()
    assert head == f"{model}:Wrong, in the place of WrongBackward: differs"
    assert rows[0] == "  result 0: agrees, error 0 of the bound"
    wrong = r"  gradient of x: differs in 4 of 4 entries; at \(\d,\) JAX \S+, PyTorch \S+, allowed"
    assert [bool(re.match(wrong, row)) for row in rows].count(True) == 1
    for name in ("Mended", "by_operators"):
        code, output = _run("replay", _file(model), "--case", f"{model}:{name}")
        assert code == 0, output
        assert output.count(": agrees, error") == 4
    assert _run("replay", _file(model), "--case", f"{model}:detached")[0] == 1


def test_arguments_are_stored_in_the_order_in_which_the_function_takes_them(model: Path) -> None:
    with np.load(_file(model)) as data:
        arguments = json.loads(str(data["facts"]))["called"]["arguments"]
        assert [*data][1:3] == ["input w", "input x"]
    x = {"array": "input x"}
    assert arguments == {"w": {"array": "input w"}, "scale": 2.0, "x": x, "rest[0]": x}
    assert [*arguments] == ["w", "scale", "x", "rest[0]"]


def test_without_a_case_the_operator_runs(model: Path) -> None:
    code, output = _run("replay", _file(model, "not_finite"))
    assert code == 1
    assert output.startswith("aten::sqrt: not finite\n")
    code, output = _run("replay", _file(model))
    assert (code, output.count("\n")) == (2, 1)
    assert "'WrongBackward' is no operator of PyTorch's; say which function it is now: --case file.py:NAME" in output


def test_an_argument_that_the_file_cannot_hold_is_left_out(model: Path) -> None:
    code, output = _run("replay", _file(model, "of_object"), "--case", f"{model}:Given")
    assert code == 2
    assert "called by (x), without by (builtin_function_or_method), which the file cannot hold, it raised" in output
    assert _run("replay", _file(model, "of_object"), "--case", "torch:neg")[0] == 0


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("longer", "its result has the shape (8,), and had (4,) in the step, as cotangent 1; return that shape"),
        ("in_float64", "its result is of torch.float64, and was of torch.bfloat16 in the step; return that dtype"),
        ("of_one", "called by (w, scale, x, rest[0]), it raised TypeError"),
        ("one_result", "it returns one result, and cotangent 0 is of number 1, counted from 0; return a tensor there"),
        ("missing", "has no function or class missing"),
    ],
)
def test_a_function_that_does_not_fit_is_told(model: Path, name: str, what: str) -> None:
    code, output = _run("replay", _file(model), "--case", f"{model}:{name}")
    assert (code, output.count("\n")) == (2, 1)
    assert what in output


Arrays = dict[str, np.ndarray]


def _without(facts: Any, arrays: Arrays) -> None:
    del arrays["right gradient of x"]


def _of_another_shape(facts: Any, arrays: Arrays) -> None:
    arrays["input x"] = arrays["input x"][:3]


def _of_another_dtype(facts: Any, arrays: Arrays) -> None:
    facts["called"]["dtypes"]["input x"] = "int64"


def _of_no_dtype(facts: Any, arrays: Arrays) -> None:
    facts["called"]["dtypes"]["input x"] = "nn"


def _of_no_audit(facts: Any, arrays: Arrays) -> None:
    del facts["called"]


def _elsewhere(facts: Any, arrays: Arrays) -> None:
    facts["called"]["device"] = "tape"


def _no_argument(facts: Any, arrays: Arrays) -> None:
    facts["called"]["arguments"]["w"] = {"array": "input z"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_without, "it has no array 'right gradient of x'; write the file again: gradparity audit ... --arrays FOLDER"),
        (_of_another_shape, "'right gradient of x' has the shape (4,), and 'input x' (3,); they must be of one shape"),
        (_of_another_dtype, "'input x' has numbers of float64 that int64 does not have"),
        (_of_no_dtype, "the dtype of 'input x' is 'nn', which PyTorch does not have"),
        (_of_no_audit, "not what gradparity has written of an audit (called must be an object, and is null)"),
        (_elsewhere, "it ran on tape, and PyTorch"),
        (_no_argument, "its argument w has no value here: input z"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_file_that_does_not_fit_is_told(
    model: Path, tmp_path: Path, change: Callable[[Any, Arrays], None], what: str
) -> None:
    with np.load(_file(model)) as data:
        arrays: Arrays = dict(data)
    facts = json.loads(str(arrays.pop("facts")))
    change(facts, arrays)
    spoilt: dict[str, Any] = {"facts": np.array(json.dumps(facts)), **arrays}
    np.savez(tmp_path / "spoilt.npz", **spoilt)
    code, output = _run("replay", tmp_path / "spoilt.npz", "--case", f"{model}:Wrong")
    assert (code, output.count("\n")) == (2, 1)
    assert what in output


def test_a_file_that_nobody_has_written_is_told(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    code, output = _run("replay", tmp_path / "other.npz", "--case", f"{model}:Wrong")
    assert code == 2
    assert "not a failure that gradparity has written (it has no facts about a failure)" in output
