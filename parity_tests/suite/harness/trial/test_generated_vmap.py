"""The generated vmap rule of PyTorch and an output that is not batched: the defect is told, and hides no mistake."""

from __future__ import annotations

import pytest
import torch
from torch._functorch import autograd_function
from torch.func import grad, vmap

from parity_tests import OpSpec, Verdict
from parity_tests.harness.trial.generated_vmap import COUNTED_OFTEN, outputs_batched
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.marks import fast

SPEC = OpSpec("both", lambda x, w: (x * w, w * w), inputs=(normal(3), normal(3, seed=1)))


class Both(torch.autograd.Function):
    """Right. Its second output does not depend on x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * w, w * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        (x, w), (y_bar, square_bar) = ctx.saved_tensors, cotangents
        return y_bar * w, y_bar * x + 2 * square_bar * w


class EveryOutputBatched(Both):
    """The way out: every output depends on every input."""

    @staticmethod
    def forward(x, w):
        return x * w, w * w + 0 * x


class OwnRule(Both):
    """The other way out."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x, w):
        x, w = (
            t.movedim(dim, 0) if dim is not None else t.expand(info.batch_size, *t.shape)
            for t, dim in zip((x, w), in_dims, strict=True)
        )
        return OwnRule.apply(x, w), (0, 0)


class Inside(Both):
    """Its two outputs are added, so that the output of the candidate is batched, and that of the Function is not."""


class WrongOfTheSecond(Both):
    @staticmethod
    def backward(ctx, *cotangents):
        (x, w), (y_bar, square_bar) = ctx.saved_tensors, cotangents
        return y_bar * w, y_bar * x + square_bar * w


class MixesExamples(OwnRule):
    @staticmethod
    def vmap(info, in_dims, x, w):
        outputs, dims = OwnRule.vmap(info, in_dims, x, w)
        return tuple(y.flip(0) for y in outputs), dims


class CountsTwiceIfBatched(Both):
    """Wrong under vmap as PyTorch is, but of an output that is batched."""

    @staticmethod
    def backward(ctx, *cotangents):
        (x, w), (y_bar, square_bar) = ctx.saved_tensors, cotangents
        times = 2 if torch._C._functorch.is_batchedtensor(y_bar) else 1
        return y_bar * w, times * y_bar * x + 2 * square_bar * w


def test_pytorch_counts_the_cotangent_once_for_every_example():
    x, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor(5.0)

    def squares(w):
        return vmap(Both.apply, (0, None))(x, w)[1].sum()  # three times w²

    before = autograd_function.vmapify_autograd_function
    assert grad(squares)(w) == 3 * (3 * 2 * 5.0)
    with outputs_batched() as found:
        assert grad(squares)(w) == 3 * 2 * 5.0
    assert found == ["Both"]
    assert autograd_function.vmapify_autograd_function is before


@fast("inside")
@pytest.mark.parametrize(
    ("call", "spec"),
    [
        pytest.param(Both.apply, SPEC, id="two outputs"),
        pytest.param(
            lambda x, w: torch.add(*Inside.apply(x, w)),
            OpSpec("sum", lambda x, w: x * w + w * w, inputs=SPEC.inputs),
            id="inside",
        ),
    ],
)
def test_the_defect_is_pytorchs(call, spec):
    row = judged(call, spec, "vmap")
    assert (row.verdict, row.listed, row.reason) == (Verdict.UNSUPPORTED, True, COUNTED_OFTEN)
    assert judged(call, spec, "functorch").verdict is Verdict.PASS  # where every input is batched


@pytest.mark.parametrize("function", [EveryOutputBatched, OwnRule])
def test_the_ways_out(function):
    assert judged(function.apply, SPEC, "vmap").verdict is Verdict.PASS


@pytest.mark.slow
@pytest.mark.parametrize("function", [WrongOfTheSecond, MixesExamples, CountsTwiceIfBatched])
def test_a_mistake_is_still_caught(function):
    row = judged(function.apply, SPEC, "vmap")
    assert row.verdict is Verdict.MISMATCH, row.reason
