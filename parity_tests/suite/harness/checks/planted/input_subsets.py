"""A gradient that depends on which others are computed."""

from __future__ import annotations

import torch

from parity_tests.suite.harness._ops import PAIR, pair, pair_backward
from parity_tests.suite.mistakes import Case, Mistake


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


_PASSES = ("vjp", "vjp_partial", "layouts")
CASES = (
    Case(PAIR, pair, {"a gradient that needs the other": Mistake(NeedsBoth.apply, "input_subsets", passes=_PASSES)}),
)
