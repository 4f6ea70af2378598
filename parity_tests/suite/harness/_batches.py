"""Operators that are right for one example, and wrong for some batches of them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ._ops import Mistake, pair, pair_backward, pair_function, pair_jvp


class _Batched(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return pair(x, y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.saved_tensors, *cotangents)


class MixesExamples(_Batched):
    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (t if d is None else t.movedim(d, 0).flip(0) for t, d in zip((x, y), in_dims, strict=True))
        return pair(x, y), (0, 0)


class OnlyInDimZero(_Batched):
    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (
            t.expand(info.batch_size, *t.shape) if d is None else t.reshape(info.batch_size, 3, 4)
            for t, d in zip((x, y), in_dims, strict=True)
        )
        return pair(x, y), (0, 0)


class MiddleAxisForLast(_Batched):
    """Its batching rule knows two places of a batch: the first axis, and the last."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (
            _moved_to_the_front(info, t, d) if d in (None, 0, -1) else t.reshape(info.batch_size, 3, 4)
            for t, d in zip((x, y), in_dims, strict=True)
        )
        return _Batched.apply(x, y), (0, 0)


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


class _SecondBatch(_Batched):
    """The kernel of a batch; for a batch of batches it takes them in the wrong order."""

    @staticmethod
    def vmap(info, in_dims, *args):
        x, y = (_moved_to_the_front(info, t, dim) for t, dim in zip(args, in_dims, strict=True))
        return _Batched.apply(x.flip(0), y), (0, 0)


class MixesNestedBatches(_Batched):
    @staticmethod
    def vmap(info, in_dims, *args):
        x, y = (_moved_to_the_front(info, t, dim) for t, dim in zip(args, in_dims, strict=True))
        return _SecondBatch.apply(x, y), (0, 0)


BATCH_MISTAKES: dict[str, dict[str, Mistake]] = {
    "vmap": {
        "mixes the examples": Mistake(MixesExamples.apply, ("forward", "vjp", "layouts")),
        "only in_dims 0": Mistake(OnlyInDimZero.apply, ("forward", "vjp", "layouts")),
        "a middle axis": Mistake(MiddleAxisForLast.apply, ("forward", "vjp", "functorch")),
        "a batch of cotangents in front": Mistake(
            pair_function(backward=_with_a_batched(pair_backward, _directions_batched_in_front)).apply,
            ("forward", "vjp", "functorch"),
        ),
        "a batch of tangents in front": Mistake(
            pair_function(jvp=_with_a_batched(pair_jvp, _directions_batched_in_front)).apply,
            ("forward", "jvp", "functorch"),
        ),
        "cotangents without a batch": Mistake(
            pair_function(backward=_with_a_batched(pair_backward, _directions_batched_always)).apply,
            ("forward", "vjp", "functorch"),
        ),
        "nested": Mistake(MixesNestedBatches.apply, ("forward", "vjp", "functorch")),
    },
}
