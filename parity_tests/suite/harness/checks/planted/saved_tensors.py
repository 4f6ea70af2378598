"""Tensors that autograd's hooks on saved tensors do not see, or that are expected back as they were laid out."""

from __future__ import annotations

import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, normal, pair, pair_backward


class KeptOnCtx(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.inputs, *cotangents)


class StridesRemembered(Pair):
    """What a kernel does that is handed the strides of its inputs."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.strides = inputs[1].stride()

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        return pair_backward(x, y.as_strided(y.shape, ctx.strides), *cotangents)


class _RunsAgain(torch.autograd.Function):
    """What computes f(x) again in its backward, as torch.utils.checkpoint and the adjoint of an equation do.

    f closes over a factor, of which the gradient is asked for, too.
    """

    @staticmethod
    def forward(ctx, f, x, factor):
        ctx.f = f
        ctx.save_for_backward(x, factor)
        return f(x)

    @staticmethod
    def backward(ctx, *cotangents):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            (gradient,) = torch.autograd.grad(ctx.f(x), x, cotangents[0])
        return None, gradient, cotangents[0] * ctx.saved_tensors[0]


def as_complex_numbers(x, factor):
    """Fails where the last axis is strided, in any run, in an operator of PyTorch's own."""
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (2, 2)))).flatten(-2) * factor


class OwnClosure(torch.autograd.Function):
    """A closure that the Function makes of its own arguments."""

    @staticmethod
    def forward(ctx, x, factor):
        def f(x):
            return x * factor

        ctx.f = f
        ctx.save_for_backward(x)
        return f(x)

    @staticmethod
    def backward(ctx, *cotangents):
        (x,) = ctx.saved_tensors
        return ctx.f(cotangents[0]), cotangents[0] * x


class _RunsAgainWithX(_RunsAgain):
    """The factor is left to the caller, and x is kept on ctx."""

    @staticmethod
    def forward(ctx, f, x, factor):
        ctx.f, ctx.x = f, x
        return f(x)

    @staticmethod
    def backward(ctx, *cotangents):
        with torch.enable_grad():
            x = ctx.x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(ctx.f(x), x, cotangents[0])
        return None, gradient, cotangents[0] * ctx.x


def _closing_over(function):
    return lambda x, factor: function.apply(lambda x: x * factor, x, factor)


_PASSES = ("forward", "vjp", "purity")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "inputs kept on ctx": Mistake(KeptOnCtx.apply, "saved_tensors", passes=(*_PASSES, "retain_graph")),
            "the strides that an input had": Mistake(
                StridesRemembered.apply, "saved_tensors", passes=(*_PASSES, "layouts", "in_place")
            ),
        },
    ),
    Operator(
        OpSpec("product", lambda x, factor: x * factor, inputs=(normal(3, 4), normal(3, 4, seed=1))),
        _closing_over(_RunsAgain),
        {
            "a closure of the Function's own": Mistake(OwnClosure.apply, "saved_tensors", passes=_PASSES),
            "a forward that strides stop": Mistake(as_complex_numbers, "saved_tensors", passes=_PASSES),
            "what a closure is called with": Mistake(_closing_over(_RunsAgainWithX), "saved_tensors", passes=_PASSES),
        },
    ),
)
