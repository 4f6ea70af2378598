"""An operator whose registration does not keep its promises."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, RIGHT_OPERATOR, pair, pair_backward, pair_operator


def _transposed_kernel(x, y):
    return x * y, (x * y).mT


def _writes(x, y):
    first, second = pair(x, y)
    y.data.add_(1)
    return first, second


torch.library.define("gradparity_tests::in_one_piece", "(Tensor x, Tensor y) -> (Tensor, Tensor)")


@torch.library.impl("gradparity_tests::in_one_piece", "CompositeExplicitAutograd")
def _in_one_piece(x, y):
    """Both outputs in one piece of memory, of which the schema says nothing."""
    return torch.stack(pair(x, y)).unbind(0)


torch.library.register_autograd(
    "gradparity_tests::in_one_piece",
    lambda ctx, g, h: pair_backward(*ctx.saved_tensors, g, h),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)

CASES = (
    Operator(
        PAIR,
        RIGHT_OPERATOR,
        {
            "a fake kernel that transposes": Mistake(
                pair_operator("transposed_too", fake=_transposed_kernel), "opcheck", passes=("forward", "vjp")
            ),
            "a mutation that the schema hides": Mistake(
                pair_operator("writes", kernel=_writes), "opcheck", passes=("forward",)
            ),
            "outputs that share memory": Mistake(
                torch.ops.gradparity_tests.in_one_piece.default,
                "opcheck",
                passes=("forward", "vjp", "purity", "fake", "make_fx"),
            ),
        },
    ),
)
