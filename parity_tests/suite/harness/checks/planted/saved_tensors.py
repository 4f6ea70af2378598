"""Tensors that autograd's hooks on saved tensors do not see, or that are expected back as they were laid out."""

from __future__ import annotations

from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward
from parity_tests.suite.mistakes import Case, Mistake


class KeptOnCtx(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.inputs, *cotangents)


class StridesRemembered(Pair):
    """What a kernel does that is handed the strides of its inputs."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.strides = inputs[1].stride()

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        return pair_backward(x, y.as_strided(y.shape, ctx.strides), *cotangents)


_PASSES = ("forward", "vjp", "purity")
CASES = (
    Case(
        PAIR,
        pair,
        {
            "inputs kept on ctx": Mistake(KeptOnCtx.apply, "saved_tensors", passes=(*_PASSES, "retain_graph")),
            "the strides that an input had": Mistake(
                StridesRemembered.apply, "saved_tensors", passes=(*_PASSES, "layouts", "in_place")
            ),
        },
    ),
)
