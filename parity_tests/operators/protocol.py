"""Mistakes in how a Function is used, not in its formula: what is saved where, and what a second call finds."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function


class _OnCtx(torch.autograd.Function):
    """Keeps its input as an attribute, where autograd does not see that it is edited in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return torch.sin(x)

    @staticmethod
    def backward(ctx, *output_bars):
        return output_bars[0] * torch.cos(ctx.x)


class _OutputOnCtx(torch.autograd.Function):
    """Keeps its output as an attribute: output, node, ctx and output again hold each other for ever."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.output = torch.sin(x)
        return ctx.output

    @staticmethod
    def backward(ctx, *output_bars):
        return output_bars[0] * torch.cos(ctx.saved_tensors[0])


class _ReadTwice(torch.autograd.Function):
    """Reads what it has saved twice, which a checkpoint computes once."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, *output_bars):
        (x,), (again,) = ctx.saved_tensors, ctx.saved_tensors
        return output_bars[0] * (torch.cos(x) + torch.cos(again)) / 2


class _OnClass(torch.autograd.Function):
    """Keeps its input on the class, where the next call replaces it."""

    x = torch.empty(0)

    @staticmethod
    def forward(ctx, x):
        _OnClass.x = x.detach().clone()
        return torch.sin(x)

    @staticmethod
    def backward(ctx, *output_bars):
        return output_bars[0] * torch.cos(_OnClass.x)


_ORDER = torch.Generator()  # of its own, which no seed that a user sets reaches


def _in_any_order(x, w):
    """Right to rounding, and each time a little different, as sums by atomic additions are."""
    heads = torch.randint(0, 2, x.shape, generator=_ORDER, dtype=x.dtype)
    return w * torch.cos(x) * (1 + torch.finfo(x.dtype).eps * heads)


sine = Operator(
    OpSpec("sine", lambda x: jnp.sin(x), "(n,m)->(n,m)"),
    torch.sin,
    {
        "saved_past_the_version_counter": Mistake(_OnCtx.apply, "in_place", passes=("vjp",)),
        "output_on_ctx": Mistake(_OutputOnCtx.apply, "leaks", passes=("vjp",)),
        "saved_tensors_read_twice": Mistake(_ReadTwice.apply, "checkpoint", passes=("vjp",)),
        "saved_on_the_class": Mistake(_OnClass.apply, "interleaved", passes=("vjp", "purity")),
        "random_rounding": Mistake(function(torch.sin, _in_any_order), "determinism", passes=("vjp",)),
        "large_cotangents_clipped": Mistake(
            function(torch.sin, lambda x, w: torch.cos(x) * w.clamp(-16, 16)), "linearity", passes=("vjp",)
        ),
    },
)
