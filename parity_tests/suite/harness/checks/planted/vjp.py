"""A wrong backward."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, LazyPair, normal, pair, pair_backward, pair_function, unary_function


class DroppedWhenBothMeet(LazyPair):
    """Each cotangent alone is handled rightly."""

    @staticmethod
    def backward(ctx, *cotangents):
        g, h = cotangents
        x, y = ctx.saved_tensors
        if g is not None and h is not None:
            return pair_backward(x, y, g, 0 * h)
        zero = torch.zeros_like(x)
        return pair_backward(x, y, zero if g is None else g, zero if h is None else h)


def _without_a_term(x, y, g, h):
    return y * y * h, 2 * x * y * h


def _in_float32(x, y, g, h):
    return tuple(x_bar.float().to(x_bar.dtype) for x_bar in pair_backward(x, y, g, h))


def _with_vjp(change: Callable) -> Callable:
    """The identity's neighbour x -> 2 x, with a backward that is nonlinear in its cotangent."""
    return unary_function(lambda x: 2 * x, lambda x, g: 2 * change(g))


def _summed(g: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """A cotangent summed to the shape of a broadcast input, over the axis that it does not find by its size."""
    return g.sum(1 - [*g.shape].index(shape[0]))


class UnbroadcastBySize(torch.autograd.Function):
    """tanh(x) w, whose axes are told apart by their sizes."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x) * w

    @staticmethod
    def backward(ctx, *cotangents):
        x, w = ctx.saved_tensors
        y = torch.tanh(x)
        return cotangents[0] * w * (1 - y * y), _summed(cotangents[0] * y, w.shape)


SCALED = OpSpec("scaled", primal=lambda x, w: jnp.tanh(x) * w, signature="(n,d),(d)->(n,d)")
DOUBLE = OpSpec("double", primal=lambda x: 2 * x, inputs=(normal(3, 4),))
NONLINEAR = {
    "|g|": lambda g: g.abs(),
    "clamp(g, -1, 1)": lambda g: g.clamp(-1, 1),
    "g |g|": lambda g: g * g.abs(),
}
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a dropped term": Mistake(pair_function(backward=_without_a_term).apply, "vjp", passes=("forward",)),
            "wrong where both cotangents meet": Mistake(
                DroppedWhenBothMeet.apply, "vjp", passes=("forward", "vjp_partial")
            ),
            "float64 gradients computed in float32": Mistake(
                pair_function(backward=_in_float32).apply, "vjp", passes=("forward", "jvp")
            ),
        },
    ),
    Operator(
        SCALED,
        lambda x, w: torch.tanh(x) * w,
        {"an axis found by its size": Mistake(UnbroadcastBySize.apply, "vjp", passes=("forward", "retain_graph"))},
    ),
    Operator(
        DOUBLE,
        lambda x: 2 * x,
        {name: Mistake(_with_vjp(change), "vjp", passes=("forward",)) for name, change in NONLINEAR.items()},
    ),
)
