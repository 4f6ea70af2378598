"""A candidate that asks for a GPU has a branch that does not run on a CPU, which is said; others have none."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Report, crosscheck
from parity_tests.harness.candidates.asked_device import OTHER_BRANCH, asks_for_gpu, text_asks_for_gpu

SPEC = OpSpec("tanh", primal=jnp.tanh, signature="(n)->(n)")


class _AsksBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return 2 * y_bar if y_bar.is_cuda else y_bar * (1 - y * y)


def _asks_of_tensor(x):
    return torch.tanh(x) if not x.is_cuda else torch.zeros_like(x)


def _asks_for_type(x):
    return torch.tanh(x) if x.device.type != "cuda" else torch.zeros_like(x)


def _asks_pytorch(x):
    return torch.zeros_like(x) if torch.cuda.is_available() else torch.tanh(x)


def _puts_beside(x):
    """Nothing is asked for here, not even cuda."""
    return torch.tanh(x) + torch.zeros(x.shape, dtype=x.dtype, device=x.device)


ASKING = [_asks_of_tensor, _asks_for_type, _asks_pytorch, _AsksBackward.apply]


def judged(call) -> Report:
    return crosscheck(call, SPEC, checks=["forward", "vjp"], dtypes=["float64", "float32"], device="cpu")


@pytest.mark.parametrize("call", ASKING, ids=["is_cuda", "device.type", "is_available", "in the backward"])
def test_the_summary_says_that_a_branch_has_not_run(call):
    report = judged(call)
    assert report.passed
    (record,) = report.as_dict()["summary"]
    assert (record["verdict"], record["unseen"]) == ("PASS", [OTHER_BRANCH])
    assert str(report).count(OTHER_BRANCH) == 1
    assert Report.from_dict(report.as_dict()).as_dict()["summary"] == [record]


@pytest.mark.parametrize("call", [torch.tanh, _puts_beside, lambda x: torch.nn.functional.tanh(x)])
def test_who_asks_for_nothing_hides_nothing(call):
    (record,) = judged(call).as_dict()["summary"]
    assert record["unseen"] == []


def test_pytorch_is_left_as_it_was():
    names = ("is_cuda", "is_cpu", "is_xpu", "is_mps", "device")
    before = {name: vars(torch.Tensor).get(name) for name in names}, torch.cuda.is_available
    assert asks_for_gpu(lambda: _asks_of_tensor(torch.ones(2)))
    assert not asks_for_gpu(lambda: 1 / 0)
    assert ({name: vars(torch.Tensor).get(name) for name in names}, torch.cuda.is_available) == before


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("def f(x):\n    return x if x.is_cuda else 0 * x", True),
        ("if torch.cuda.is_available(): pass", True),
        ("def f(x):\n    if x.device.type == 'cuda': return 0", True),
        ("def f(x):\n    return torch.ones(3, device=x.device)", False),
        ("is_available = 'cuda'", False),
        ("def f(:", False),
        ("(" * 3000, False),
    ],
)
def test_the_text_of_a_solution_that_runs_elsewhere(text, asks):
    assert text_asks_for_gpu(text) is asks
