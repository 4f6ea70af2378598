"""The script of a failure: what it can import, and that it compares what the check has compared."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from parity_tests.harness.judging.reproducer import importable

from ._reproducers import gradparity, script

pytestmark = pytest.mark.usefixtures("shrinking")


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay runs the case that a failure names only in the current folder."""
    monkeypatch.chdir(tmp_path)


def half_trace(x):
    return (x @ x.detach()).trace()


def _local():
    class Local(torch.autograd.Function):
        pass

    return Local.apply


class _Here(torch.autograd.Function):
    pass


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (half_trace, "half_trace"),
        (_Here.apply, "_Here.apply"),
        (lambda x: x, None),
        (_local(), None),
        (torch.nn.Tanh(), None),
        (torch.tanh, None),
    ],
    ids=["function", "apply", "lambda", "local class", "module", "builtin"],
)
def test_what_a_script_can_import(call, name):
    assert importable(call) == (None if name is None else (__name__, name))


@pytest.mark.parametrize("main", ["__main__", "__mp_main__"])
def test_a_script_cannot_import_what_a_script_defines(main, monkeypatch):
    """Neither by its name there, nor by that in a process which it has started."""
    monkeypatch.setattr(half_trace, "__module__", main)
    monkeypatch.setitem(sys.modules, main, SimpleNamespace(half_trace=half_trace))
    assert importable(half_trace) is None


def failing_script(case: Path, source: str, dtype: str = "float64") -> Path:
    """Write a case whose vjp is wrong, judge it, and return the one script that its failure leaves beside it."""
    case.write_text(source)
    failures = case.parent / "failures"
    ran = gradparity(
        "check", str(case), "--only", "vjp", "--device", "cpu", "--dtype", dtype, "--failures", str(failures)
    )
    assert ran.exit_code == 1, ran.output
    (path,) = failures.glob("*.py")
    return path


SURROGATE = """
import jax.numpy as jnp
import torch
from parity_tests import OpSpec

spec = OpSpec("through", lambda x: jnp.round(x), "(n)->(n)", surrogate=lambda x, w: (w,))


def candidate(x):
    return FACTOR * x + (torch.round(x) - FACTOR * x).detach()
"""


def test_the_script_compares_with_a_surrogate_gradient(tmp_path):
    """The primal's own derivative is 0, which is neither of the two."""
    case = tmp_path / "case.py"
    path = failing_script(case, SURROGATE.replace("FACTOR", "2"))
    code, printed = script(path)
    assert (code, "x_bar: they differ" in printed) == (1, True), printed
    case.write_text(SURROGATE.replace("FACTOR", "1"))
    code, printed = script(path)
    assert (code, "x_bar: they agree" in printed) == (0, True), printed


MIXED = """
import jax.numpy as jnp
import torch
from parity_tests import OpSpec

spec = OpSpec("weighted", lambda z, x: (z * x, x * x), "(n),(n)->(n),(n)", domains={"z": "complex"})


class Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, x):
        ctx.save_for_backward(z, x)
        return z * x, x * x

    @staticmethod
    def backward(ctx, w, v):
        z, x = ctx.saved_tensors
        return x * w, (WHAT * w).real + 2 * x * v


def candidate(z, x):
    return Weighted.apply(z, x)
"""


@pytest.mark.slow
def test_the_script_has_real_and_complex_numbers(tmp_path):
    case = tmp_path / "case.py"
    path = failing_script(case, MIXED.replace("WHAT", "z"), "float32")
    code, printed = script(path)
    assert (code, "x_bar: they differ" in printed, "z_bar: they agree" in printed) == (1, True, True), printed
    assert gradparity("replay", str(path.with_suffix(".npz"))).exit_code == 1
    case.write_text(MIXED.replace("WHAT", "z.conj()"))
    code, printed = script(path)
    assert (code, "x_bar: they agree" in printed) == (0, True), printed
    assert gradparity("replay", str(path.with_suffix(".npz"))).exit_code == 0


RETURNED = """
import jax
import jax.numpy as jnp
import torch
from parity_tests import OpSpec


def primal(x):
    values, indices = jax.lax.top_k(x, 2)
    return {"values": values, "indices": indices}


spec = OpSpec("largest", primal, "(n,4)->(n,2),(n,2)")


def candidate(x):
    values, indices = torch.topk(x, 2)
    return {"values": FACTOR * values - ((FACTOR - 1) * values).detach(), "indices": indices}
"""


@pytest.mark.slow
def test_the_script_knows_dictionaries_and_integers(tmp_path):
    case = tmp_path / "case.py"
    path = failing_script(case, RETURNED.replace("FACTOR", "2"))
    code, printed = script(path)
    assert (code, "x_bar: they differ" in printed) == (1, True), printed
    case.write_text(RETURNED.replace("FACTOR", "1"))
    code, printed = script(path)
    assert (code, "x_bar: they agree" in printed) == (0, True), printed


OPTIONAL = """
import jax.numpy as jnp
import torch
from parity_tests import OpSpec

spec = OpSpec("affine", lambda x, b: x * x if b is None else x * x + b, "(n),(n)->(n)", optional=["b"])


def candidate(x, b):
    return FACTOR * x * x - ((FACTOR - 1) * x * x).detach() if b is None else x * x + b
"""


def test_the_script_and_the_replay_know_what_is_absent(tmp_path):
    case = tmp_path / "case.py"
    path = failing_script(case, OPTIONAL.replace("FACTOR", "2"))
    code, printed = script(path)
    assert (code, "x_bar: they differ" in printed) == (1, True), printed
    assert gradparity("replay", str(path.with_suffix(".npz"))).exit_code == 1
    case.write_text(OPTIONAL.replace("FACTOR", "1"))
    code, printed = script(path)
    assert (code, "x_bar: they agree" in printed) == (0, True), printed
    assert gradparity("replay", str(path.with_suffix(".npz"))).exit_code == 0
