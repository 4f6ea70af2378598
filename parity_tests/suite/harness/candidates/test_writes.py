"""An error about a write in place is PyTorch's only if no code of the candidate wrote."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.candidates.inplace_writes import InplaceWriteDetector
from parity_tests.suite.harness._ops import judged, normal

X = normal(4, 3)
LOGSUMEXP = OpSpec("op", primal=lambda x: jax.nn.logsumexp(x, axis=-1), inputs=(X,))
EXP = OpSpec("op", primal=jnp.exp, inputs=(X,))


class InPlaceTangent(torch.autograd.Function):
    """exp, whose jvp writes to what its own derivative needs."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return torch.exp(x)

    @staticmethod
    def backward(ctx, w):
        (x,) = ctx.saved_tensors
        return w * torch.exp(x)

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        y = torch.exp(x)
        t = t * y
        y.add_(1)
        return t


def test_what_pytorch_writes_itself_is_its_own_limit():
    row = judged(lambda x: torch.logsumexp(x, -1), LOGSUMEXP, "vjp_of_jvp")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert "modified by an inplace operation" in row.reason
    assert "by PyTorch's own formula" in row.reason


def test_what_a_jvp_writes_is_a_mistake():
    row = judged(InPlaceTangent.apply, EXP, "vjp_of_jvp")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert "modified by an inplace operation" in row.failure.wrong[0].pattern


def _out(x):
    torch.mul(x, 2, out=x)


def _item(x):
    x[0] = 1


def _augmented(x):
    x *= 2


def _data(x):
    x.data = x + 1


def _method(x):
    x.mul_(2)


def _operator(x):
    torch.ops.aten.mul_.Tensor(x, x)


@pytest.mark.parametrize("write", [_out, _item, _augmented, _data, _method, _operator])
def test_a_write_is_seen(write):
    with InplaceWriteDetector() as writes:
        write(torch.ones(3))
    assert writes.seen


def test_an_operator_that_is_not_pytorchs_own_may_write():
    @torch.library.custom_op("gradparity_test::writes_or_not", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    with InplaceWriteDetector() as writes:
        twice(torch.ones(3))
    assert writes.seen


def test_reading_is_no_write():
    x = torch.ones(3)
    with InplaceWriteDetector() as writes:
        _ = ~(x > 0), x[0], x.sum(), -x, x.exp(), torch.logsumexp(x, 0), torch.ops.aten.exp.default(x)
        x.requires_grad_()
    assert not writes.seen
