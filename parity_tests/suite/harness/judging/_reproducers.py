"""A case with a mistake, the command line in this process, and the script of a failure run in it."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path

import jax
import pytest
from typer.testing import CliRunner, Result

from parity_tests.cli.app import app

# Two inputs, two outputs, an index and a parameter. Each mistake is one line.
CASE = """
import jax.numpy as jnp
import torch
from parity_tests import OpSpec, integer


def primal(x, w, index, scale):
    y = jnp.tanh(scale * (x @ w))
    return y, y[index] * y[index]


spec = OpSpec(
    "gathered",
    primal=primal,
    signature="(n,d),(d),(m)->(n),(m)",
    domains={"index": integer(0, "n")},
    params={"scale": 0.5},
)


def formula(x, w, index, scale):
    y = torch.tanh(scale * (x @ w))
    return y, y[index] * y[index]


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(x, w, index, scale):
        return formula(x, w, index, scale)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, index, ctx.scale = inputs
        ctx.save_for_backward(x, w, index, output[0])
        ctx.save_for_forward(x, w, index, output[0])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, y_bar, squares_bar):
        x, w, index, y = ctx.saved_tensors
        total = torch.zeros_like(y) if y_bar is None else y_bar
        if squares_bar is not None:
            total = total.index_add(0, index, 2 * y[index] * squares_bar)
        p = ctx.scale * total * (1 - y * y)
        x_bar, w_bar = torch.outer(p, w), x.T @ p
        BACKWARD
        return x_bar, w_bar, None, None

    @staticmethod
    def jvp(ctx, x_dot, w_dot, *_):
        x, w, index, y = ctx.saved_tensors
        x_dot, w_dot = (torch.zeros_like(a) if a_dot is None else a_dot for a, a_dot in ((x, x_dot), (w, w_dot)))
        y_dot = ctx.scale * (1 - y * y) * (x_dot @ w + x @ w_dot)
        squares_dot = 2 * y[index] * y_dot[index]
        JVP
        return y_dot, squares_dot


def wrong(x, w, index, scale):
    return Gathered.apply(x, w, index, scale)


candidates = {"right": formula, "wrong": wrong}
"""
MISTAKES = {  # the check that finds it, the line in the backward, the one in the jvp
    "vjp": ("w_bar = w_bar / 2", ""),
    "jvp": ("", "squares_dot = squares_dot / 2"),
    "vjp_of_vjp": ("x_bar = x_bar + 0 * x; w_bar = w_bar.detach()", ""),
    "jvp_of_vjp": ("x_bar = x_bar.detach()", ""),
    "vjp_of_jvp": ("", "y_dot = y_dot + (x - x.detach()).sum(-1)"),
    "vjp_partial": ("w_bar = w_bar * 2 if squares_bar is None else w_bar", ""),
    "layouts": ("w_bar = w_bar if x.is_contiguous() else 2 * w_bar", ""),
    "input_subsets": ("w_bar = w_bar if ctx.needs_input_grad[0] else w_bar / 2", ""),
}


def text(backward: str = "", jvp: str = "") -> str:
    """A case with a mistake; without one, a right one."""
    return CASE.replace("BACKWARD", backward or "pass").replace("JVP", jvp or "pass")


def gradparity(*args: str) -> Result:
    """In this process, in which the mistakes are planted."""
    here = ("--no-isolate",) if args[0] in ("run", "check") else ()
    return CliRunner().invoke(app, [*args, *here], env={"COLUMNS": "200"})


def script(path: Path, *args: str) -> tuple[int, str]:
    """Run a script in this process, and leave no traces in it: its exit code, and what it printed."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True), contextlib.redirect_stdout(out):
        patch.setattr(jax.config, "update", lambda name, value: None)
        patch.setattr(sys, "path", [*sys.path])
        patch.setattr(sys, "argv", [str(path), *args])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
    code = ended.value.code
    return (code, out.getvalue()) if isinstance(code, int) else (1, f"{out.getvalue()}{code}\n")


def case_with(folder: Path, check: str) -> Path:
    """A case file with the mistake that this check finds."""
    backward, jvp = MISTAKES[check]
    path = folder / "case.py"
    path.write_text(text(backward, jvp))
    return path


def found(folder: Path, check: str, *options: str) -> tuple[Path, str]:
    """The .npz of the failure that `gradparity check` finds, and what it prints."""
    failures = folder / "failures"
    ran = gradparity(
        "check",
        str(case_with(folder, check)),
        "--only",
        check,
        "--device",
        "cpu",
        "--failures",
        str(failures),
        *options,
    )
    assert ran.exit_code == 1, ran.output
    (path,) = failures.glob("*.npz")
    assert {*failures.iterdir()} == {path, path.with_suffix(".py")}
    return path, ran.stdout
