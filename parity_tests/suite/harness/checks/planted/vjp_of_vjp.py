"""A backward that autograd cannot differentiate rightly."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward


class SavedIntermediate(Pair):
    """tanh(x) is neither input nor output, so double backward does not see that it depends on x."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.t = torch.tanh(inputs[0].detach())

    @staticmethod
    def backward(ctx, *cotangents):
        (x, y), (g, h) = ctx.saved_tensors, cotangents
        return (1 - ctx.t * ctx.t) * y * g + y * y * h, ctx.t * g + 2 * x * y * h


class BackwardDetached(Pair):
    @staticmethod
    def backward(ctx, *cotangents):
        gradients = pair_backward(*ctx.saved_tensors, *cotangents)
        return tuple(g - (g - g.detach()) for g in gradients)


_PASSES = ("forward", "vjp", "vjp_partial", "layouts")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a saved intermediate": Mistake(SavedIntermediate.apply, "vjp_of_vjp", passes=_PASSES),
            "a detached gradient": Mistake(BackwardDetached.apply, "vjp_of_vjp", passes=_PASSES),
        },
    ),
)
