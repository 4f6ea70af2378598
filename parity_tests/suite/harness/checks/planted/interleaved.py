"""State that calls share."""

from __future__ import annotations

import threading
from typing import ClassVar

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward


class OnTheClass(Pair):
    saved: tuple[torch.Tensor, ...]

    @staticmethod
    def setup_context(ctx, inputs, output):
        OnTheClass.saved = inputs

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*OnTheClass.saved, *cotangents)


class StackOnTheClass(Pair):
    """Right as long as the last call is the first to go backward."""

    pending: ClassVar[list] = []

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        if any(ctx.needs_input_grad):
            StackOnTheClass.pending.append(inputs[1])

    @staticmethod
    def backward(ctx, *cotangents):
        (x, _), y = ctx.saved_tensors, StackOnTheClass.pending.pop()
        return pair_backward(x, y, *cotangents)


class OnTheThread(Pair):
    local = threading.local()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        OnTheThread.local.scale = 1.0

    @staticmethod
    def backward(ctx, *cotangents):
        scale = getattr(OnTheThread.local, "scale", 2.0)
        return tuple(scale * g for g in Pair.backward(ctx, *cotangents))


class OneOutputBuffer(Pair):
    """Its second output is always in the same memory."""

    buffer = torch.empty(3, 4, dtype=torch.float64)

    @staticmethod
    def forward(x, y):
        first, second = pair(x, y)
        return first, OneOutputBuffer.buffer.data.copy_(second)


_PASSES = ("forward", "vjp", "purity", "retain_graph")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "state on the thread": Mistake(OnTheThread.apply, "interleaved", passes=_PASSES),
            "state on the class": Mistake(OnTheClass.apply, "interleaved", passes=_PASSES),
            "a stack on the class": Mistake(StackOnTheClass.apply, "interleaved", passes=("forward", "vjp")),
            "one buffer for all outputs": Mistake(OneOutputBuffer.apply, "interleaved", passes=_PASSES),
        },
    ),
)
