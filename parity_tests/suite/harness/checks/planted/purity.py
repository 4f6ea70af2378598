"""What is the caller's written to, or a state that a backward changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from parity_tests.harness.candidates.array_candidate import ArrayCandidate
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function, pair_jvp


def _writes_to_cotangent(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    g.zero_()
    return x_bar, y_bar


def _writes_to_input(x, y):
    result = pair(x, y)
    x.data.add_(1)
    return result


def _writes_to_input_in_backward(x, y, g, h):
    gradients = pair_backward(x, y, g, h)
    y.data.zero_()  # through .data, which autograd's version counter does not see
    return gradients


class WritesToOutputInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        first, second = pair(x, y)
        ctx.save_for_backward(x, y)
        ctx.kept = second.detach()
        return first, second

    @staticmethod
    def backward(ctx, *cotangents):
        ctx.kept.zero_()
        return pair_backward(*ctx.saved_tensors, *cotangents)


class KeepsState(torch.autograd.Function):
    """The second backward of a graph gives twice the first."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.times = 0
        return pair(x, y)

    @staticmethod
    def backward(ctx, *cotangents):
        ctx.times += 1
        x_bar, y_bar = pair_backward(*ctx.saved_tensors, *cotangents)
        return ctx.times * x_bar, ctx.times * y_bar


def _writes_to_tangent(x, y, x_dot, y_dot):
    result = pair_jvp(x, y, x_dot, y_dot)
    x_dot.zero_()
    return result


def _writes_and_restores(x, y):
    """In a Function, whose forward autograd does not record."""
    x.mul_(2)
    x.mul_(0.5)
    return pair(x, y)


# The same in NumPy, whose arrays can be written to, too.


def _in_numpy(x, y):
    return np.tanh(x) * y, x * y * y


def _vjp_in_numpy(x, y, g, h):
    t = np.tanh(x)
    return (1 - t * t) * y * g + y * y * h, t * g + 2 * x * y * h


def _cleared_in_numpy(x, y):
    results = _in_numpy(x, y)
    x[...] = 0
    return results


def _scaled_in_numpy(x, y, g, h):
    gradients = _vjp_in_numpy(x, y, g, h)
    g *= 2
    return gradients


def _seeded(x, y):
    torch.manual_seed(0)
    return pair(x, y)


def _in_float64(x, y, g, h):
    torch.set_default_dtype(torch.float64)
    return pair_backward(x, y, g, h)


_FIRST = ("forward", "vjp")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "writes to its cotangent": Mistake(
                pair_function(backward=_writes_to_cotangent).apply, "purity", passes=_FIRST
            ),
            "writes to its input": Mistake(_writes_to_input, "purity", passes=("forward",)),
            "writes to its input in the backward": Mistake(
                pair_function(backward=_writes_to_input_in_backward).apply, "purity", passes=("forward", "vjp", "jvp")
            ),
            "writes to its output": Mistake(WritesToOutputInBackward.apply, "purity", passes=_FIRST),
            "writes to its tangent": Mistake(
                pair_function(jvp=_writes_to_tangent).apply, "purity", passes=("forward", "vjp", "jvp")
            ),
            "writes to its input, and restores it": Mistake(
                pair_function(_writes_and_restores).apply, "purity", passes=(*_FIRST, "in_place", "saved_tensors")
            ),
            "keeps state": Mistake(KeepsState.apply, "purity", passes=_FIRST),
            "seeds PyTorch": Mistake(_seeded, "purity", passes=_FIRST),
            "a default dtype": Mistake(pair_function(backward=_in_float64).apply, "purity", passes=_FIRST),
        },
    ),
    Operator(
        replace(PAIR, name="pair of arrays"),
        ArrayCandidate(_in_numpy, _vjp_in_numpy),
        {
            "writes to its input, in NumPy": Mistake(
                ArrayCandidate(_cleared_in_numpy, _vjp_in_numpy), "purity", passes=_FIRST
            ),
            "writes to its cotangent, in NumPy": Mistake(
                ArrayCandidate(_in_numpy, _scaled_in_numpy), "purity", passes=_FIRST
            ),
        },
    ),
)
