"""A second backward, with other cotangents, that meets what the first has left."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair


class FirstResultKept(Pair):
    @staticmethod
    def backward(ctx, *cotangents):
        if not hasattr(ctx, "kept"):
            ctx.kept = Pair.backward(ctx, *cotangents)
        return tuple(g.clone() for g in ctx.kept)


class BufferReturned(Pair):
    """The next backward overwrites what this one has returned."""

    @staticmethod
    def backward(ctx, *cotangents):
        gradients = Pair.backward(ctx, *cotangents)
        if not hasattr(ctx, "buffers"):
            ctx.buffers = [torch.empty_like(g) for g in gradients]
        return tuple(buffer.copy_(g) for g, buffer in zip(gradients, ctx.buffers, strict=True))


class CacheReturned(Pair):
    """Remembers what it has returned, by its cotangents; the caller may have written to it since."""

    @staticmethod
    def backward(ctx, *cotangents):
        key = [w.tolist() for w in cotangents]
        ctx.cache = getattr(ctx, "cache", [])
        for known, gradients in ctx.cache:
            if known == key:
                return gradients
        ctx.cache.append((key, Pair.backward(ctx, *cotangents)))
        return ctx.cache[-1][1]


_PASSES = ("forward", "vjp", "purity")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "keeps its first result": Mistake(FirstResultKept.apply, "retain_graph", passes=_PASSES),
            "returns a buffer": Mistake(BufferReturned.apply, "retain_graph", passes=_PASSES),
            "returns what it has in a cache": Mistake(CacheReturned.apply, "retain_graph", passes=_PASSES),
        },
    ),
)
