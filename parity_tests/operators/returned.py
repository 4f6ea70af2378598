"""Operators that return more than numbers: places as integers, and dictionaries."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator

_K = 3


# The largest k of each row, and where they are.


class _Largest(NamedTuple):
    values: jax.Array
    indices: jax.Array


def _top_k_with(places=lambda i: i, scatter=lambda i: i):
    class TopK(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            values, indices = torch.topk(x, _K)
            return values, places(indices), indices

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1], output[2])
            ctx.save_for_backward(inputs[0], output[2])
            ctx.save_for_forward(inputs[0], output[2])

        @staticmethod
        def backward(ctx, values_bar, *_):
            x, indices = ctx.saved_tensors
            return torch.zeros_like(x).scatter(-1, scatter(indices), values_bar)

        @staticmethod
        def jvp(ctx, x_dot):
            _, indices = ctx.saved_tensors
            return x_dot.gather(-1, indices), None, None

    def call(x):
        values, indices, _ = TopK.apply(x)
        return {"indices": indices, "values": values}

    return call


top_k_places = Operator(
    OpSpec("top_k", lambda x: _Largest(*jax.lax.top_k(x, _K)), "(n,7)->(n,3),(n,3)", input_names=("x",)),
    _top_k_with(),
    {
        "in_ascending_order": Mistake(_top_k_with(places=lambda i: i.flip(-1)), "forward", passes=("vjp", "jvp")),
        "counted_from_one": Mistake(_top_k_with(places=lambda i: i + 1), "forward", passes=("vjp", "jvp")),
        "places_as_numbers": Mistake(_top_k_with(places=lambda i: i.to(torch.float64)), "forward", passes=("vjp",)),
        "gradient_at_other_places": Mistake(
            _top_k_with(scatter=lambda i: i.flip(-1)), "vjp", passes=("forward", "jvp")
        ),
    },
)


# A loss with what is logged beside it: a dictionary, with a dictionary in it.


def _loss(x, y):
    error = x - y
    return {
        "loss": 0.5 * (error**2).sum(-1),
        "metrics": {"largest": jnp.abs(error).max(-1), "within": jnp.abs(error) < 0.5},
    }


def _loss_with(gradient):
    class HalfSquare(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x - y)
            return 0.5 * ((x - y) ** 2).sum(-1)

        @staticmethod
        def backward(ctx, loss_bar):
            (error,) = ctx.saved_tensors
            return gradient(error) * loss_bar[..., None], -gradient(error) * loss_bar[..., None]

    def call(x, y):
        size = (x - y).abs()
        return {"metrics": {"within": size < 0.5, "largest": size.amax(-1)}, "loss": HalfSquare.apply(x, y)}

    return call


def _loss_torch(x, y):
    size = (x - y).abs()
    return {"metrics": {"within": size < 0.5, "largest": size.amax(-1)}, "loss": 0.5 * ((x - y) ** 2).sum(-1)}


def _exchanged(x, y):
    returned = _loss_torch(x, y)
    metrics = returned["metrics"]
    return {"loss": metrics["largest"], "metrics": {"largest": returned["loss"], "within": metrics["within"]}}


def _not_strict(x, y):
    returned = _loss_torch(x, y)
    return returned | {"metrics": returned["metrics"] | {"within": (x - y).abs() < 0.6}}


logged_loss = Operator(
    OpSpec("logged_loss", _loss, "(n,d),(n,d)->(n),(n),(n,d)", sizes="d >= 1"),
    _loss_torch,
    {
        "twice_the_gradient": Mistake(_loss_with(lambda e: 2 * e), "vjp", passes=("forward",)),
        "names_exchanged": Mistake(_exchanged, "forward"),
        "another_threshold": Mistake(_not_strict, "forward", passes=("vjp", "jvp")),
    },
)
