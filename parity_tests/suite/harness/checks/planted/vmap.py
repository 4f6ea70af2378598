"""Batching rules that are right for some batches, and wrong for others."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward, pair_function, pair_jvp


class MixesExamples(Pair):
    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (t if d is None else t.movedim(d, 0).flip(0) for t, d in zip((x, y), in_dims, strict=True))
        return pair(x, y), (0, 0)


class OnlyInDimZero(Pair):
    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (
            t.expand(info.batch_size, *t.shape) if d is None else t.reshape(info.batch_size, 3, 4)
            for t, d in zip((x, y), in_dims, strict=True)
        )
        return pair(x, y), (0, 0)


class MiddleAxisForLast(Pair):
    """Its batching rule knows two places of a batch: the first axis, and the last."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (
            _moved_to_the_front(info, t, d) if d in (None, 0, -1) else t.reshape(info.batch_size, 3, 4)
            for t, d in zip((x, y), in_dims, strict=True)
        )
        return Pair.apply(x, y), (0, 0)


def _with_a_batched(kernel: Callable, reads: Callable) -> Callable:
    """`kernel` as a Function, whose batching rule reads each argument by `reads(info, argument, axis of the batch)`."""

    class Batched(torch.autograd.Function):
        @staticmethod
        def forward(*args):
            return kernel(*args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, *args):
            args = [reads(info, x, dim, i) for i, (x, dim) in enumerate(zip(args, in_dims, strict=True))]
            return Batched.apply(*args), (0, 0)

    return Batched.apply  # type: ignore[return-value]


def _moved_to_the_front(info, x, dim):
    return x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)


def _directions_batched_in_front(info, x, dim, i):
    """Arguments 2 and 3, the directions, are taken to have their batch in front, wherever it is."""
    if i < 2 or dim in (0, None):
        return _moved_to_the_front(info, x, dim)
    return x.reshape(info.batch_size, *(size for d, size in enumerate(x.shape) if d != dim % x.dim()))


def _directions_batched_always(info, x, dim, i):
    """Arguments 2 and 3, the directions, are zero if they have no batch."""
    return (0 if dim is None and i >= 2 else 1) * _moved_to_the_front(info, x, dim)


class _SecondBatch(Pair):
    """The kernel of a batch; for a batch of batches it takes them in the wrong order."""

    @staticmethod
    def vmap(info, in_dims, *args):
        x, y = (_moved_to_the_front(info, t, dim) for t, dim in zip(args, in_dims, strict=True))
        return Pair.apply(x.flip(0), y), (0, 0)


class MixesNestedBatches(Pair):
    @staticmethod
    def vmap(info, in_dims, *args):
        x, y = (_moved_to_the_front(info, t, dim) for t, dim in zip(args, in_dims, strict=True))
        return _SecondBatch.apply(x, y), (0, 0)


CALLS = {
    "a middle axis": MiddleAxisForLast.apply,
    "a batch of cotangents in front": pair_function(
        backward=_with_a_batched(pair_backward, _directions_batched_in_front)
    ).apply,
    "cotangents without a batch": pair_function(
        backward=_with_a_batched(pair_backward, _directions_batched_always)
    ).apply,
    "nested": MixesNestedBatches.apply,
}
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "mixes the examples": Mistake(MixesExamples.apply, "vmap", passes=("forward", "vjp", "layouts")),
            "only in_dims 0": Mistake(OnlyInDimZero.apply, "vmap", passes=("forward", "vjp", "layouts")),
            "a batch of tangents in front": Mistake(
                pair_function(jvp=_with_a_batched(pair_jvp, _directions_batched_in_front)).apply,
                "vmap",
                passes=("forward", "jvp", "functorch"),
            ),
            **{name: Mistake(call, "vmap", passes=("forward", "vjp", "functorch")) for name, call in CALLS.items()},
        },
    ),
)
