"""`gradparity audit`, as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from parity_tests.cli.app import app

_MODEL = """
import torch
from torch import nn

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, c):
        return 3 * c

class Net(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f, self.line = f, nn.Linear(3, 2)

    def forward(self, x):
        return self.f(self.line(x)).sum()

def right():
    return Net(torch.tanh)

def wrong():
    return Net(Wrong.apply), torch.ones(4, 3)

def known():
    norm, x = nn.LayerNorm(2).bfloat16(), torch.ones(4096, 2).bfloat16()
    return lambda: norm(x).float().sum()

def given_nan():
    x = torch.full((3,), torch.nan, requires_grad=True)
    return lambda: x.sin().sum()

def no_step():
    return 3

def raises():
    raise RuntimeError("no weights here")
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(_MODEL)
    torch.save({"x": torch.ones(4, 3)}, tmp_path / "batch.pt")
    return file


def _run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *map(str, args)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


def test_a_right_step_has_exit_code_zero(model: Path) -> None:
    code, output = _run(f"{model}:right", "--inputs", model.with_name("batch.pt"))
    assert (code, output) == (0, "4 operations: 4 agree")


def test_a_wrong_one_is_named_and_written(model: Path, tmp_path: Path) -> None:
    data, page = tmp_path / "audit.json", tmp_path / "audit.html"
    code, output = _run(f"{model}:wrong", "--json", data, "--html", page, "--arrays", tmp_path / "arrays")
    assert code == 1
    assert "WrongBackward: differs in Net in File" in output
    file = tmp_path / "arrays" / "0_WrongBackward.npz"
    assert output.endswith(f"to do: fix it, and gradparity replay {file} --case FILE.py:NAME")
    whole = json.loads(data.read_text())
    assert not whole["passed"]
    assert [(each["name"], each["module"]) for each in whole["operations"] if each["finding"] == "differs"] == [
        ("WrongBackward", "Net")
    ]
    with np.load(tmp_path / "arrays" / "0_WrongBackward.npz") as arrays:
        assert np.array_equal(arrays["gradient of x"], 3 * arrays["cotangent 0"])
        assert np.array_equal(arrays["right gradient of x"], 2 * arrays["cotangent 0"])
        assert np.array_equal(arrays["result"], 2 * arrays["input x"])
    text = page.read_text()
    assert '<span class="differs">differs</span>' in text
    assert "<code>line</code>" in text
    assert "&#34;" in text  # quotes of the line are escaped


def test_of_a_nan_from_outside_there_are_no_arrays(model: Path, tmp_path: Path) -> None:
    code, output = _run(f"{model}:given_nan", "--arrays", tmp_path / "arrays")
    assert code == 1
    assert "by a parameter or an argument" in output
    assert [*(tmp_path / "arrays").iterdir()] == []


def test_a_known_defect_is_named(model: Path) -> None:
    code, output = _run(f"{model}:known")
    assert code == 1
    (numbers,) = re.findall(r"known defects: ([\d, ]+), see: gradparity found layer_norm", output)
    assert "16" in numbers.split(", ")


@pytest.mark.parametrize(
    ("name", "more", "what"),
    [
        ("missing", (), "has no function or class missing"),
        ("no_step", (), "its result is of type int; return a module, or a function that returns the loss"),
        ("raises", (), "RuntimeError: no weights here"),
        ("right", (), "the step raised TypeError: Net.forward() missing 1 required positional argument: 'x'"),
        ("right", ("--inputs", "model.py"), "torch.load cannot read it"),
        ("right", ("--inputs", "nowhere.pt"), "nowhere.pt"),
    ],
    ids=["missing", "no_step", "raises", "no_arguments", "no_tensors", "no_file"],
)
def test_what_cannot_run_is_told(
    model: Path, name: str, more: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    code, output = _run(f"{model}:{name}", *more)
    assert code == 2
    assert what in output
