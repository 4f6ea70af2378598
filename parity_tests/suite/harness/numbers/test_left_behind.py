"""A candidate's replaced functions and entered modes end with its check: they neither fail nor pass the next one."""

from __future__ import annotations

import builtins

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch._compile
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.left_behind import _function_modes, put_back

SINE = OpSpec("xsin", primal=lambda x: x * jnp.sin(x), signature="(n)->(n)")


class DoublesOfFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return 2 * result if function is torch.sin else result


class DoublesOfOperators(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        return 2 * result if operator is torch.ops.aten.sin.default else result


MODES = [DoublesOfFunctions, DoublesOfOperators, lambda: torch.device("meta")]


@pytest.mark.parametrize("mode", MODES, ids=["functions", "operators", "device"])
def test_a_mode_that_is_entered_and_never_left(mode) -> None:
    with put_back():
        for _ in range(2):
            mode().__enter__()
        torch._C._push_on_torch_function_stack(DoublesOfFunctions())
        torch._C._push_on_torch_dispatch_stack(DoublesOfOperators())
    assert _function_modes() == _get_current_dispatch_mode_stack() == []
    ones = torch.ones(1)
    assert ones.device.type == "cpu"
    assert torch.equal(ones.sin(), torch.sin(ones))
    assert torch.get_default_device().type == "cpu"


def test_modes_of_whoever_calls_stay_in_their_order() -> None:
    outer, inner, operators = DoublesOfFunctions(), DoublesOfFunctions(), DoublesOfOperators()
    with torch.device("meta"), outer, inner, operators:
        before = _function_modes()
        with put_back():
            for mode in MODES:
                mode().__enter__()
            torch.set_default_device("cpu")
        after = _function_modes()
        assert [type(mode) for mode in after] == [type(mode) for mode in before]
        assert after[1:] == before[1:] == [outer, inner]
        assert _get_current_dispatch_mode_stack() == [operators]
    assert _function_modes() == _get_current_dispatch_mode_stack() == []


@pytest.mark.slow
def test_a_mode_of_pytorch_that_is_below_that_of_whoever_calls() -> None:
    with DoublesOfOperators() as operators:
        with put_back():
            FakeTensorMode().__enter__()
            assert len(_get_current_dispatch_mode_stack()) == 2
        assert _get_current_dispatch_mode_stack() == [operators]


def _other(*_: object, **__: object) -> object:
    raise AssertionError("a function that a candidate has left")


@pytest.mark.parametrize(
    ("owner", "name", "path"),
    [
        (builtins, "ascii", "builtins.ascii"),
        (torch, "cos", "torch.cos"),
        (torch.Tensor, "backward", "torch.Tensor.backward"),
        (torch.Tensor, "__mul__", "torch.Tensor.__mul__"),  # inherited
        (torch.Tensor, "T", "torch.Tensor.T"),  # inherited, and no method
        (torch.nn.functional, "gelu", "torch.nn.functional.gelu"),
        (torch.linalg, "svd", "torch.linalg.svd"),
        (torch.special, "erf", "torch.special.erf"),
        (torch.autograd, "grad", "torch.autograd.grad"),
        (np, "abs", "numpy.abs"),
        (jnp, "sin", "jax.numpy.sin"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_a_function_that_is_replaced(owner, name: str, path: str) -> None:
    before, own = getattr(owner, name), vars(owner).get(name)
    with put_back() as replaced:
        setattr(owner, name, _other)
        assert getattr(owner, name) is _other
    assert replaced == [path]
    assert getattr(owner, name) is before
    assert vars(owner).get(name) is own


def test_a_function_that_is_deleted_is_put_back_and_what_is_added_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.cos
    for owner in (torch, torch.Tensor):
        monkeypatch.setattr(owner, "an_extension", None, raising=False)
        delattr(owner, "an_extension")
    with put_back() as replaced:
        del torch.cos
        torch.an_extension = torch.Tensor.an_extension = _other
    assert replaced == ["torch.cos"]
    assert torch.cos is before
    assert torch.an_extension is torch.Tensor.an_extension is _other


def test_what_pytorch_replaces_itself_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `import torch._dynamo` does: the function is the same, kept from being compiled."""
    monkeypatch.setattr(torch, "cos", torch.cos)  # which puts it back after the test
    uncompiled, storage = torch._compile._disable_dynamo(torch.cos), torch.Storage
    with put_back() as replaced:
        torch.cos = uncompiled
        torch.set_default_dtype(torch.float16)  # replaces a class, too
    torch.set_default_dtype(torch.float32)
    assert replaced == []
    assert torch.cos is uncompiled
    assert torch.Storage is storage


@pytest.mark.slow
def test_the_next_candidate_is_judged_by_itself() -> None:
    def patches(x):
        torch.cos = torch.sin
        return x * torch.sin(x)

    def enters(x):
        DoublesOfFunctions().__enter__()
        DoublesOfOperators().__enter__()
        return x * torch.sin(x)

    def right(x):
        return x * torch.sin(x)

    def wrong(x):
        return x * torch.cos(x)

    candidates = {"patches": patches, "enters": enters, "right": right, "wrong": wrong}
    report = crosscheck(candidates, SINE, checks=["forward", "vjp"], dtypes=["float64"])
    verdicts = {(row.candidate, row.check): row.verdict for row in report.rows}
    for check in ("forward", "vjp"):
        assert verdicts["patches", check] is verdicts["right", check] is Verdict.PASS
        assert verdicts["wrong", check] is Verdict.MISMATCH
    note = "xsin: patches replaced torch.cos, put back after each check"
    assert [line for line in report.skipped if "put back" in line] == [note]
