"""What goes wrong when the forward runs again for the backward."""

from __future__ import annotations

import itertools

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward


class AnotherScale(Pair):
    """A power of two, which each forward chooses anew, is on ctx and in what is saved."""

    scales = itertools.cycle((2.0, 4.0, 8.0))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.scale = next(AnotherScale.scales)
        ctx.save_for_backward(ctx.scale * x, y)

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        return pair_backward(x / ctx.scale, y, *cotangents)


class SavedTensorsReadTwice(Pair):
    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(ctx.saved_tensors[0], ctx.saved_tensors[1], *cotangents)


_PASSES = ("forward", "vjp", "purity", "saved_tensors")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a scale on ctx, and in what is saved": Mistake(
                AnotherScale.apply, "checkpoint", passes=(*_PASSES, "in_place")
            ),
            "ctx.saved_tensors read twice": Mistake(SavedTensorsReadTwice.apply, "checkpoint", passes=_PASSES),
        },
    ),
)
