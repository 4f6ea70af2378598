"""Backwards that look at the gradient that is there already."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward


class Replaces(Pair):
    """Throws away the gradient that an input has."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x.grad = y.grad = None
        return pair_backward(x, y, *cotangents)


class AddsItself(Pair):
    """Adds to a gradient that is there, as a kernel for weight gradients does, and returns the sum."""

    @staticmethod
    def backward(ctx, *cotangents):
        saved = ctx.saved_tensors
        gradients = pair_backward(*saved, *cotangents)
        return tuple(g if x.grad is None else x.grad + g for x, g in zip(saved, gradients, strict=True))


class OnlyOnce(Pair):
    """Takes an input with a gradient for one that is done."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return x_bar, y_bar if y.grad is None else torch.zeros_like(y)


class TakesOneStrideForAll(Pair):
    """A kernel that reads a cotangent of one number as if it were dense: wrong for a loss that is a sum."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        expanded = any(0 in g.stride() for g in cotangents if g is not None and g.numel() > 1)
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return x_bar, 1.5 * y_bar if expanded else y_bar


_PASSES = ("vjp", "input_subsets", "retain_graph", "interleaved", "purity", "checkpoint")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "replaces a gradient": Mistake(Replaces.apply, "accumulation", passes=_PASSES),
            "adds to a gradient itself": Mistake(AddsItself.apply, "accumulation", passes=_PASSES),
            "only where there is none": Mistake(OnlyOnce.apply, "accumulation", passes=_PASSES),
            "the loss is a sum": Mistake(TakesOneStrideForAll.apply, "accumulation", passes=_PASSES),
        },
    ),
)
