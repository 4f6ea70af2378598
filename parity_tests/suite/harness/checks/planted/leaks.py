"""Memory that calls leave behind."""

from __future__ import annotations

from typing import ClassVar

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair


class OutputOnCtx(Pair):
    """output -> its node -> ctx -> output: a cycle that only the garbage collector frees."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        Pair.setup_context(ctx, inputs, output)
        ctx.output = output


class HistoryOnTheClass(Pair):
    history: ClassVar[list] = []

    @staticmethod
    def backward(ctx, *cotangents):
        gradients = Pair.backward(ctx, *cotangents)
        HistoryOnTheClass.history.append(gradients[0])
        return gradients


_PASSES = ("forward", "vjp", "purity")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "output -> node -> ctx -> output": Mistake(
                OutputOnCtx.apply, "leaks", passes=(*_PASSES, "saved_tensors", "in_place")
            ),
            "gradients that are never freed": Mistake(HistoryOnTheClass.apply, "leaks", passes=_PASSES),
        },
    ),
)
