"""A backward that is wrong where a cotangent is undefined."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, LazyPair, pair, pair_backward


class OrForAnd(LazyPair):
    @staticmethod
    def backward(ctx, *cotangents):
        if any(g is None for g in cotangents):
            return None, None
        return pair_backward(*ctx.saved_tensors, *cotangents)


class NonzeroWithoutCotangents(LazyPair):
    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        g, h = (torch.zeros_like(x) if c is None else c for c in cotangents)
        x_bar, y_bar = pair_backward(x, y, g, h)
        return x_bar, y_bar + (cotangents == (None, None))


class UndefinedUsed(LazyPair):
    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        g, h = cotangents
        return pair_backward(x, y, torch.zeros_like(x) if g is None else g, h + 0)


class OneOfBoth(LazyPair):
    """Loses the second gradient where nothing but it is asked for."""

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        g, h = (torch.zeros_like(x) if c is None else c for c in (g, h)) if (g is None) != (h is None) else (g, h)
        x_bar, y_bar = pair_backward(x, y, g, h)
        alone = ctx.needs_input_grad == (False, True)
        return x_bar, None if alone and not g.any() else y_bar


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "one gradient of one cotangent": Mistake(
                OneOfBoth.apply, "vjp_partial", passes=("forward", "vjp", "input_subsets")
            ),
            "or for and": Mistake(OrForAnd.apply, "vjp_partial", passes=("forward", "vjp")),
            "a gradient out of nothing": Mistake(
                NonzeroWithoutCotangents.apply, "vjp_partial", passes=("forward", "vjp")
            ),
            "an undefined cotangent is used": Mistake(UndefinedUsed.apply, "vjp_partial", passes=("forward", "vjp")),
        },
    ),
)
