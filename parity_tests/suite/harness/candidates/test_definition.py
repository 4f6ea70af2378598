"""Where a candidate is defined: by its own code if that is the user's, else by the file of its case."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path

import pytest
import torch

from parity_tests.harness.candidates.definition import definition_of

HERE = Path(__file__)
CASE = Path("case.py")


def function(x):
    return x


@functools.wraps(function)
def wrapper(x):
    return function(x)


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x


class Module(torch.nn.Module):
    def forward(self, x):
        return x


OWN = {
    "function": (function, function),
    "partial": (functools.partial(function), function),
    "wrapped": (wrapper, function),
    "compiled": (torch.compile(function), function),
    "Function": (Op.apply, Op),
    "module": (Module(), Module),
    "method": (Module().forward, Module.forward),
}


@pytest.mark.parametrize("kind", OWN)
def test_own_code_has_a_file_and_a_line(kind: str):
    call, defined = OWN[kind]
    found = definition_of("op", "mine", call, CASE, HERE.parent)
    assert found is not None
    assert (found.op, found.candidate, found.file) == ("op", "mine", HERE.name)
    assert found.line == inspect.getsourcelines(defined)[1]


@pytest.mark.parametrize(
    "call",
    [torch.sin, torch.nn.functional.softmax, torch.nn.Tanh(), None],
    ids=["builtin", "function", "module", "not built"],
)
def test_what_is_not_the_users_has_the_file_of_the_case(tmp_path: Path, call: object):
    """PyTorch's own code, which may be installed in a folder of the run, and what could not be built."""
    found = definition_of("op", "mine", call, tmp_path / "cases" / "case.py", tmp_path)
    assert found is not None
    assert (found.file, found.line) == ("cases/case.py", None)
    assert definition_of("op", "mine", call, None, tmp_path) is None


def _cycle(x):
    return x


_cycle.__wrapped__ = _cycle  # type: ignore[attr-defined]


class _Lazy:
    @property
    def __wrapped__(self):
        raise RuntimeError("not loaded")

    def __call__(self, x):
        return x


def _executed():
    exec("def made(x): return x", names := {})
    return names["made"]


@pytest.mark.parametrize(
    "call", [_cycle, _Lazy(), _executed(), torch.ops.aten.sin], ids=["cycle", "lazy", "exec", "op"]
)
def test_a_callable_without_code_of_its_own_is_no_error(call: object):
    found = definition_of("op", "mine", call, CASE, HERE.parent)
    assert found is not None
    assert (found.file, found.line) == ("case.py", None)


def test_an_environment_in_the_folder_is_not_the_users(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "prefix", str(HERE.parent))
    found = definition_of("op", "mine", function, CASE, HERE.parent.parent)
    assert found is not None
    assert (found.file, found.line) == ("case.py", None)


def test_a_file_outside_of_the_folder(tmp_path: Path):
    found = definition_of("op", "mine", function, tmp_path / "case.py", tmp_path / "run")
    assert found is not None
    assert found.file == "../case.py"
