"""Operators that are right as they are called, and wrong under a transform: compiled, traced, cast, nested."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._ops import Mistake, pair, pair_backward, pair_function, pair_jvp


def _scaled(x, y):
    return pair(x / 2, y)


def _compiled_path(x, y):
    return _scaled(x, y) if torch.compiler.is_compiling() else pair(x, y)


def _traced_path(x, y):
    return _scaled(x, y) if isinstance(x, FakeTensor) else pair(x, y)


def _half_under_autocast(x, y):
    if torch.is_autocast_enabled(x.device.type):
        x, y = x.half(), y.half()
    return pair(x, y)


def _another_path_under_autocast(x, y):
    return _scaled(x, y) if torch.is_autocast_enabled(x.device.type) else pair(x, y)


def _operator(name: str, kernel: Callable, fake: Callable) -> Callable:
    """An operator with the right gradients."""
    op = torch.library.custom_op(
        f"gradparity_tests::{name}", kernel, mutates_args=(), schema="(Tensor x, Tensor y) -> (Tensor, Tensor)"
    )
    op.register_fake(fake)
    op.register_autograd(
        lambda ctx, g, h: pair_backward(*ctx.saved_tensors, g, h),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


RIGHT_OPERATOR = _operator("pair", pair, pair)


def _transposed_fake(x, y):
    return x * y, (x * y).mT


def _writes(x, y):
    first, second = pair(x, y)
    y.data.add_(1)
    return first, second


class _Curvature(torch.autograd.Function):
    """The VJP of pair's VJP; its batching rule takes the examples in the wrong order."""

    @staticmethod
    def forward(x, y, g, h, u, v):
        return torch.func.vjp(pair_backward, x, y, g, h)[1]((u, v))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, *args):
        args = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(args, in_dims, strict=True)
        ]
        return _Curvature.apply(*(x.flip(0) for x in args)), (0, 0, 0, 0)


class _Slope(torch.autograd.Function):
    """pair's VJP, with a VJP of its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y, g, h):
        return pair_backward(x, y, g, h)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return _Curvature.apply(*ctx.saved_tensors, *cotangents)


class _ConstantCurvature(_Slope):
    @staticmethod
    def backward(ctx, *cotangents):
        x, y, g, h = (x.detach() for x in ctx.saved_tensors)
        return torch.func.vjp(pair_backward, x, y, g, h)[1](cotangents)


_PLAIN = ("forward", "vjp", "jvp_of_jvp")

TRANSFORM_MISTAKES: dict[str, dict[str, Mistake]] = {
    "compile": {"another path if compiled": Mistake(_compiled_path, (*_PLAIN, "fake", "make_fx"))},
    "make_fx": {"another path if traced": Mistake(_traced_path, (*_PLAIN, "fake", "compile"))},
    "fake": {
        "a fake kernel that transposes": Mistake(
            _operator("transposed_fake", pair, _transposed_fake), ("forward", "vjp")
        ),
    },
    "autocast": {
        "float16, whatever autocast has": Mistake(_half_under_autocast, (*_PLAIN, "make_fx", "compile")),
        "another path under autocast": Mistake(_another_path_under_autocast, (*_PLAIN, "make_fx", "compile")),
    },
    "opcheck": {
        "a fake kernel that transposes": Mistake(
            _operator("transposed_too", pair, _transposed_fake), ("forward", "vjp")
        ),
        "a mutation that the schema hides": Mistake(_operator("writes", _writes, pair), ("forward",)),
    },
    "functorch": {
        "a batching rule of second order": Mistake(
            pair_function(backward=_Slope.apply).apply, ("forward", "vjp", "vjp_of_vjp", "vmap")
        )
    },
    "third_order": {
        "a double backward without graph": Mistake(
            pair_function(backward=_ConstantCurvature.apply, jvp=pair_jvp).apply, ("forward", "vjp", "vjp_of_vjp")
        )
    },
}
