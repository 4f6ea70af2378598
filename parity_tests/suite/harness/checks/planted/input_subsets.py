"""A gradient that depends on which others are computed."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, normal, pair, pair_backward


class NeedsBoth(torch.autograd.Function):
    """The gradient of x only if y needs one, too."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return pair(x, y)

    @staticmethod
    def backward(ctx, *cotangents):
        x_bar, y_bar = pair_backward(*ctx.saved_tensors, *cotangents)
        return (x_bar, y_bar) if all(ctx.needs_input_grad) else (0 * x_bar, y_bar)


# A layer with an adapter: x w + b + x down up.
ADAPTED = OpSpec(
    "adapted",
    primal=lambda x, w, down, b, up: x @ w + b + jnp.tanh(x @ down) @ up,
    inputs=(normal(3, 4), normal(4, 2, seed=1), normal(4, 2, seed=2), normal(2, seed=3), normal(2, 2, seed=4)),
)


def _adapted(x, w, down, b, up):
    return x @ w + b + torch.tanh(x @ down) @ up


def _of_these(needed: tuple[bool, ...]):
    """A version that doubles the gradient of what is first needed where exactly these inputs need theirs."""

    class Adapted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return _adapted(*inputs)

        @staticmethod
        def backward(ctx, y_bar):
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
                gradients = list(torch.autograd.grad(_adapted(*leaves), leaves, y_bar))
            if ctx.needs_input_grad == needed:
                gradients[needed.index(True)] *= 2
            return tuple(gradients)

    return Adapted.apply


_PASSES = ("vjp", "vjp_partial", "layouts")
CASES = (
    Operator(
        PAIR,
        pair,
        {"a gradient that needs the other": Mistake(NeedsBoth.apply, "input_subsets", passes=("vjp", "layouts"))},
    ),
    Operator(
        ADAPTED,
        _adapted,
        {
            "two of five": Mistake(_of_these((False, False, True, False, True)), "input_subsets", passes=_PASSES),
            "the first and the last of five": Mistake(
                _of_these((True, False, False, False, True)), "input_subsets", passes=_PASSES
            ),
        },
    ),
)
