"""What can be wrong with a case: each has a message of its own, a verdict or exit code 2, and the report is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.case_file import load_module
from parity_tests.suite.marks import fast

HEAD = """
import sys
import jax.numpy as jnp
import numpy as np
import torch
from parity_tests import OpSpec

def pair(x):
    return jnp.sin(x), x * x

spec = OpSpec("pair", primal=pair, signature="(n)->(n),(n)", output_names=("sine", "square"))
"""
NO_GRAD = "def candidate(x):\n    with torch.no_grad():\n        return torch.sin(x), x * x\n"


def check(folder: Path, text: str, *options: str, only: str = "vjp") -> tuple[int, str, dict]:
    """Exit code, what was printed, the report."""
    (folder / "case.py").write_text(HEAD + text)
    files = ("--json", str(folder / "report.json"), "--html", str(folder / "report.html"))
    where = (
        "--failures",
        str(folder / "failures"),
        "--device",
        "cpu",
        "--dtype",
        "float64",
        "--only",
        only,
        "--no-isolate",
    )
    ran = CliRunner().invoke(app, ["check", str(folder / "case.py"), *files, *where, *options], env={"COLUMNS": "300"})
    assert (folder / "report.html").is_file(), ran.output
    return ran.exit_code, ran.output, json.loads((folder / "report.json").read_text())


@fast("one output", "raises")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("candidate = torch.sin", "vjp  returned 1 outputs, expected 2", id="one output"),
        pytest.param(
            "candidate = lambda x: (torch.sin(x), x * x, x)",
            "vjp  returned 3 outputs, expected 2",
            id="three outputs",
        ),
        pytest.param("candidate = lambda x: ()", "vjp  returned 0 outputs, expected 2", id="none"),
        pytest.param(
            "candidate = lambda x: (torch.sin(x), 3.0)",
            "vjp  returned float where a tensor, or a tuple of tensors, is expected",
            id="no tensor",
        ),
        pytest.param(
            "def candidate(x):\n    raise RuntimeError('out of luck')",
            "vjp  raises RuntimeError: out of luck (at case.py:13, in candidate)",
            id="raises",
        ),
        pytest.param(
            "candidate = lambda x, y: (x, y)",
            "vjp  raises TypeError: <lambda>() missing 1 required",
            id="takes another number",
        ),
        pytest.param(
            "def candidate(x):\n    sys.exit(0)",
            "vjp  raises SystemExit: 0 (at case.py:13, in candidate)",
            id="sys.exit",
        ),
        pytest.param(
            "class Stop(BaseException): pass\ndef candidate(x):\n    raise Stop('here')",
            "vjp  raises Stop: here (at case.py:14, in candidate)",
            id="a BaseException",
        ),
        pytest.param(
            "def candidate(x):\n    y = torch.from_numpy(np.sin(x.numpy()))\n    return y, x * x",
            "vjp  raises RuntimeError: Can't call numpy() on Tensor that requires grad",
            id="through NumPy",
        ),
    ],
)
def test_a_candidate_without_results(tmp_path, text, message):
    code, printed, report = check(tmp_path, text)
    assert code == 1
    assert f"  {message}" in printed
    assert "[vjp, all_axes_differ (n=4), float64, cpu, seed 0]" in printed
    assert "Traceback" not in printed
    (wrong,) = report["failures"][0]["wrong"]
    assert message in f"{wrong['label']}  {wrong['pattern']}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            NO_GRAD,
            "looks like  x_bar = 0: the candidate is not differentiable: sine and square have no grad_fn "
            "(detached, or computed under no_grad)",
            id="not at all",
        ),
        pytest.param(
            "candidate = lambda x: (torch.sin(x) * float('nan'), x * float('nan'))",
            "looks like  4 entries of x_bar are not finite",
            id="NaN",
        ),
    ],
)
def test_a_candidate_that_is_wrong_everywhere(tmp_path, text, message):
    code, printed, report = check(tmp_path, text)
    assert code == 1
    assert message in printed
    assert report["failures"][0]["wrong"][0]["looks_like"] == message.removeprefix("looks like  ")


def test_one_output_that_is_not_differentiable(tmp_path):
    """A gradient that is zero for another reason is not blamed on it."""
    text = "class Zero(torch.autograd.Function):\n"
    text += "    @staticmethod\n    def forward(ctx, x):\n        return torch.sin(x), x * x\n"
    text += "    @staticmethod\n    def backward(ctx, a, b):\n        return 0 * a\n"
    _, printed, _ = check(tmp_path, text + "candidate = Zero.apply\n")
    assert "looks like  x_bar = 0\n" in printed
    _, printed, _ = check(tmp_path, "candidate = lambda x: (torch.sin(x.detach()), (x * x).detach() + 0 * x)\n")
    assert "x_bar = 0: the candidate is not differentiable: sine has no grad_fn (" in printed


def test_nan_in_the_forward(tmp_path):
    code, printed, _ = check(tmp_path, "candidate = lambda x: (x * float('nan'), x * x)", only="forward")
    assert code == 1
    assert "4 entries of sine are not finite" in printed


def test_an_oracle_whose_formula_is_wrong(tmp_path):
    text = (
        "spec = OpSpec('pair', primal=pair, signature='(n)->(n),(n)', vjp=lambda x, a, b: a * jnp.cos(x) - 2 * x * b)\n"
        "candidate = lambda x: (torch.sin(x), x * x)\n"
    )
    code, printed, report = check(tmp_path, text)
    assert code == 2
    assert "pair: oracle disagrees with its own certificate" in printed
    assert "oracle, vjp, f64: MISMATCH: x_bar: explicit formula against autodiff" in printed
    assert "lambda, vjp, f64: UNRESOLVED: the oracle's vjp has no certificate\n" in printed
    assert [row["verdict"] for row in report["rows"]] == ["MISMATCH", "UNRESOLVED"]


@pytest.mark.parametrize(
    ("primal", "message"),
    [
        ("lambda x: 1 / 0", "ZeroDivisionError: division by zero"),
        ("lambda x: sys.exit(0)", "SystemExit: 0"),
        ("lambda x, y: (x, y)", "TypeError"),
    ],
    ids=["raises", "sys.exit", "takes another number"],
)
def test_an_oracle_that_does_not_run(tmp_path, primal, message):
    text = f"spec = OpSpec('pair', primal={primal}, signature='(n)->(n),(n)')\ncandidate = torch.sin\n"
    code, printed, report = check(tmp_path, text)
    assert code == 2
    assert f"Could not judge: pair: primal fails on inputs of shapes (4,): {message}" in printed
    assert report["error"].startswith("pair: primal fails on inputs of shapes (4,)")


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("(n)->(n)", "primal returns 2 outputs, but its signature has 1"),
        ("(n)->(n),()", "primal returns shape (4,) for output 1, but its signature has ()"),
        ("(n),(n)->(n),(n)", "primal fails on inputs of shapes (4,), (4,): TypeError"),
    ],
)
def test_a_signature_that_does_not_fit(tmp_path, signature, message):
    text = f"spec = OpSpec('pair', primal=pair, signature='{signature}')\ncandidate = torch.sin\n"
    code, printed, report = check(tmp_path, text)
    assert code == 2
    assert f"Could not judge: pair: {message}" in printed
    assert not report["passed"]


def test_a_sampler_that_raises(tmp_path):
    text = (
        "def sampler(rng, shape):\n    raise KeyError('no such thing')\n"
        "spec = OpSpec('pair', primal=pair, signature='(n)->(n),(n)', domains={'x': sampler})\n"
        "candidate = lambda x: (torch.sin(x), x * x)\n"
    )
    code, printed, report = check(tmp_path, text)
    assert code == 2
    told = "pair: its inputs cannot be drawn: KeyError: 'no such thing' (at case.py:13, in sampler)"
    assert f"Could not judge: {told}" in printed
    assert report["error"] == told
    assert "Traceback" not in printed


def test_a_case_that_exits(tmp_path):
    (tmp_path / "case.py").write_text("import sys\nsys.exit(0)\n")
    ran = CliRunner().invoke(app, ["check", str(tmp_path / "case.py"), "--no-isolate"])
    assert ran.exit_code == 2
    assert ran.stderr == f"gradparity: {tmp_path}/case.py, line 2: SystemExit: 0\n"


def test_an_interrupt_is_none_of_the_candidate(tmp_path):
    code, printed, report = check(tmp_path, "def candidate(x):\n    raise KeyboardInterrupt")
    assert code == 130
    assert "Could not judge: interrupted" in printed
    assert report["error"] == "interrupted"


def test_a_quick_edit_is_seen(tmp_path):
    """Of the same length and within the same second: Python would take the bytecode of before for current."""
    case = tmp_path / "case.py"
    for factor in (2, 1):
        case.write_text(f"factor = {factor}\n")
        os.utime(case, (1e9, 1e9))
        assert load_module(case).factor == factor
    assert [path.name for path in tmp_path.iterdir()] == ["case.py"]
