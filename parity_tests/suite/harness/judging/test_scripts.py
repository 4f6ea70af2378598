"""The script of a failure: what it can import, and that it compares what the check has compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from parity_tests import OpSpec, crosscheck
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# A kernel against its reference.

KERNELS = """
import torch

from .parts import scaled


def reference(x, w, index, factor):
    return scaled(torch.tanh(x), factor)[index] * w


class Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, index, factor):
        ctx.save_for_backward(x, w, index)
        ctx.factor = factor
        return reference(x, w, index, factor)

    @staticmethod
    def backward(ctx, y_bar):
        x, w, index = ctx.saved_tensors
        t = torch.tanh(x)
        chosen = y_bar * w * ctx.factor
        x_bar = torch.zeros_like(x).index_add(0, index, WHAT * chosen)
        return x_bar, y_bar * ctx.factor * t[index], None, None


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return torch.tanh(x) * self.weight


class Fused(Module):
    def forward(self, x):
        return torch.tanh(x) * self.weight + HALF * (x - x.detach())
"""
RIGHT = {"WHAT": "(1 - t[index] ** 2)", "HALF": "0"}
WRONG = {"WHAT": "(1 - t[index])", "HALF": "0.5"}
DOORS = {
    "function": (
        "Kernel",
        "reference",
        ["--inputs", "x: (n), w: (m), index: (m) integer(0,n)", "--params", "factor=3"],
    ),
    "module": ("Fused", "Module", ["--inputs", "x: (n,3)"]),
}


def _kernels(folder: Path, texts: dict[str, str]) -> Path:
    """A package with a kernel, its reference, and a file that both import relatively."""
    text = KERNELS
    for word, replacement in texts.items():
        text = text.replace(word, replacement)
    (folder / "__init__.py").touch()
    (folder / "parts.py").write_text("def scaled(x, factor):\n    return factor * x\n")
    (folder / "kernels.py").write_text(text)
    return folder / "kernels.py"


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_the_script_of_a_kernel_runs_as_it_is(tmp_path, door):
    """In a process of its own: it imports the kernel and its reference as a part of their package."""
    folder = tmp_path / f"fused_{door}"
    folder.mkdir()
    file = _kernels(folder, WRONG)
    kernel, reference, options = DOORS[door]
    ran = gradparity(
        "check",
        f"{file}:{kernel}",
        "--reference",
        f"{file}:{reference}",
        *options,
        "--only",
        "vjp",
        "--dtype",
        "float64",
    )
    assert ran.exit_code == 1, ran.output
    (path,) = Path("gradparity-failures").glob("*.py")
    assert f"  script  python {path}\n" in ran.output

    def shown() -> tuple[int, str]:
        alone = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
        return alone.returncode, alone.stdout + alone.stderr

    code, printed = shown()
    assert (code, "x_bar: they differ\n  The kernel\n" in printed, "The reference" in printed) == (1, True, True), (
        printed
    )
    assert gradparity("replay", str(path.with_suffix(".npz"))).exit_code == 1
    _kernels(folder, RIGHT)
    code, printed = shown()
    assert (code, "x_bar: they agree" in printed) == (0, True), printed


def test_a_script_that_asks_for_a_callable_says_so(tmp_path):
    spec = OpSpec("square", lambda x: x * x, "(n)->(n)")
    report = crosscheck(lambda x: x * x.detach(), spec, checks=["vjp"], dtypes=["float64"])
    report.save_failures(tmp_path)
    (path,) = tmp_path.glob("*.py")
    assert f"  script  python {path}, once the callables that it asks for are filled in\n" in str(report)
    code, printed = script(path)
    assert (code, "put the PyTorch callable here" in printed) == (1, True)
