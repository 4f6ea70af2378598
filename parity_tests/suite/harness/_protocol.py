"""Operators that are right in one call, and wrong in what surrounds it: state, memory, threads, size of cotangents."""

from __future__ import annotations

import itertools
import threading
from typing import ClassVar

import torch

from ._ops import Mistake, pair, pair_backward, pair_function


class Pair(torch.autograd.Function):
    """The right one; the mistakes below change one thing."""

    @staticmethod
    def forward(x, y):
        return pair(x, y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.saved_tensors, *cotangents)


def _clipped(x, y, g, h):
    return pair_backward(x, y, g.clamp(-500, 500), h.clamp(-500, 500))


def _one_ulp_more_for_large(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return torch.where(g.abs() > 100, torch.nextafter(x_bar, 2 * x_bar), x_bar), y_bar


def _nan_for_zero(x, y, g, h):
    return pair_backward(x, y, g / g.abs() * g.abs(), h)


class OnTheClass(Pair):
    saved: tuple[torch.Tensor, ...]

    @staticmethod
    def setup_context(ctx, inputs, output):
        OnTheClass.saved = inputs

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*OnTheClass.saved, *cotangents)


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


class ByAddress(Pair):
    """tanh(x), once for every address."""

    known: ClassVar[dict[int, torch.Tensor]] = {}

    @staticmethod
    def forward(x, y):
        t = ByAddress.known.setdefault(x.data_ptr(), torch.tanh(x))
        return t * y, x * y * y


class OneOutputBuffer(Pair):
    """Its second output is always in the same memory."""

    buffer = torch.empty(3, 4, dtype=torch.float64)

    @staticmethod
    def forward(x, y):
        first, second = pair(x, y)
        return first, OneOutputBuffer.buffer.data.copy_(second)


class FirstResultKept(Pair):
    @staticmethod
    def backward(ctx, *cotangents):
        if not hasattr(ctx, "kept"):
            ctx.kept = Pair.backward(ctx, *cotangents)
        return tuple(g.clone() for g in ctx.kept)


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


class KeptOnCtx(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.inputs, *cotangents)


class DataSaved(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*(x.data for x in inputs))


class OutputOnCtx(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        Pair.setup_context(ctx, inputs, output)
        ctx.output = output


def _factors_in_any_order():
    calls = itertools.count()

    def call(x, y):
        first, second = pair(x, y)
        return first, second if next(calls) % 2 else x * (y * y)

    return call


_ONE_CALL = ("forward", "vjp", "purity")

PROTOCOL_MISTAKES: dict[str, dict[str, Mistake]] = {
    "linearity": {
        "clipped": Mistake(pair_function(backward=_clipped).apply, _ONE_CALL),
        "a unit in the last place, for large cotangents": Mistake(
            pair_function(backward=_one_ulp_more_for_large).apply, _ONE_CALL
        ),
        "0/0 at zero": Mistake(pair_function(backward=_nan_for_zero).apply, _ONE_CALL),
    },
    "in_place": {"saves x.data": Mistake(DataSaved.apply, (*_ONE_CALL, "saved_tensors"))},
    "retain_graph": {"keeps its first result": Mistake(FirstResultKept.apply, _ONE_CALL)},
    "interleaved": {
        "state on the thread": Mistake(OnTheThread.apply, (*_ONE_CALL, "retain_graph")),
        "state on the class": Mistake(OnTheClass.apply, (*_ONE_CALL, "retain_graph")),
        "one buffer for all outputs": Mistake(OneOutputBuffer.apply, (*_ONE_CALL, "retain_graph")),
    },
    "determinism": {"factors in any order": Mistake(_factors_in_any_order(), ("forward", "vjp"))},
    "saved_tensors": {"inputs kept on ctx": Mistake(KeptOnCtx.apply, _ONE_CALL)},
    "checkpoint": {"a scale on ctx, and in what is saved": Mistake(AnotherScale.apply, (*_ONE_CALL, "saved_tensors"))},
    "leaks": {"output -> node -> ctx -> output": Mistake(OutputOnCtx.apply, (*_ONE_CALL, "saved_tensors", "in_place"))},
}
