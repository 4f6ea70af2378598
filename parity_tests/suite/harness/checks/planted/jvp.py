"""A wrong forward mode."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function, pair_jvp


def _of_the_other_input(x, y, x_dot, y_dot):
    return pair_jvp(x, y, y_dot, x_dot)


class DroppedTangent(pair_function()):
    """Its jvp takes an absent first tangent for two."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        return pair_backward(x, y, *(torch.zeros_like(x) if g is None else g for g in cotangents))

    @staticmethod
    def jvp(ctx, x_dot, y_dot):
        x, y = ctx.saved_tensors
        if x_dot is None:
            return torch.zeros_like(x), torch.zeros_like(x)
        return pair_jvp(x, y, x_dot, torch.zeros_like(y) if y_dot is None else y_dot)


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "the other input's tangent": Mistake(
                pair_function(jvp=_of_the_other_input).apply, "jvp", passes=("forward", "vjp")
            ),
            "zero without a tangent of the first input": Mistake(
                DroppedTangent.apply, "jvp", passes=("forward", "vjp", "adjoint")
            ),
        },
    ),
)
