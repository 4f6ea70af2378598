"""A double backward that autograd cannot differentiate."""

from __future__ import annotations

import torch

from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function
from parity_tests.suite.mistakes import Case, Mistake


class _ConstantCurvature(torch.autograd.Function):
    """pair's VJP, whose own VJP takes everything for a constant."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y, g, h):
        return pair_backward(x, y, g, h)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        x, y, g, h = (x.detach() for x in ctx.saved_tensors)
        return torch.func.vjp(pair_backward, x, y, g, h)[1](cotangents)


_CALL = pair_function(backward=_ConstantCurvature.apply).apply
CASES = (
    Case(
        PAIR,
        pair,
        {"a double backward without graph": Mistake(_CALL, "third_order", passes=("forward", "vjp", "vjp_of_vjp"))},
    ),
)
