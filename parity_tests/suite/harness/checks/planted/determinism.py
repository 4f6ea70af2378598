"""Results that differ from call to call, or from thread to thread."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, normal, pair


def _factors_in_any_order():
    calls = itertools.count()

    def call(x, y):
        first, second = pair(x, y)
        return first, second if next(calls) % 2 else x * (y * y)

    return call


class SharedWorkspace(torch.autograd.Function):
    """All calls compute the product in one piece of memory, and copy it out of it."""

    workspace: ClassVar[dict] = {}

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        shape = (x.shape[0], w.shape[1])
        product = SharedWorkspace.workspace.setdefault((shape, x.dtype), x.new_empty(shape))
        return torch.mm(x, w, out=product).clone()

    @staticmethod
    def backward(ctx, *cotangents):
        x, w = ctx.saved_tensors
        (y_bar,) = cotangents
        return y_bar @ w.mT, x.mT @ y_bar


PRODUCT = OpSpec("product", primal=lambda x, w: x @ w, inputs=(normal(4, 3), normal(3, 5, seed=1)))
CASES = (
    Operator(
        PAIR,
        pair,
        {"factors in any order": Mistake(_factors_in_any_order(), "determinism", passes=("forward", "vjp"))},
    ),
    Operator(
        PRODUCT,
        lambda x, w: x @ w,
        {
            "threads share a workspace": Mistake(
                SharedWorkspace.apply, "determinism", passes=("forward", "vjp", "purity", "interleaved")
            )
        },
    ),
)
