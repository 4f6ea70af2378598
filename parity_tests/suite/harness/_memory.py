"""Operators that are right at contiguous values, and read memory by the wrong strides or write where they may not."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ._ops import Mistake, pair, pair_backward, pair_function, pair_jvp


def _as_if_contiguous(x: torch.Tensor) -> torch.Tensor:
    """What a kernel reads that ignores the strides."""
    if x.is_contiguous() or 0 in x.stride():
        return x
    strides = [x[0].numel(), 1] if x.dim() == 2 else [1]
    return torch.as_strided(x, x.shape, strides, x.storage_offset())


def _cotangent_as_if_contiguous(x, y, g, h):
    return pair_backward(x, y, _as_if_contiguous(g), _as_if_contiguous(h))


def first_row_only(x, y, g, h):
    """A cotangent of stride 0 is taken for one row, and what has no stride 0 is right."""
    if 0 in g.stride():
        g = torch.cat([g[:1], 0 * g[1:]])
    return pair_backward(x, y, g, h)


def _writes_to_cotangent(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    g.zero_()
    return x_bar, y_bar


def _writes_to_input(x, y):
    result = pair(x, y)
    x.data.add_(1)
    return result


def _writes_to_output_in_backward() -> Callable:
    class Writes(torch.autograd.Function):
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

    return Writes.apply


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


def _pads_rows(x, y):
    """What is between the rows becomes zero, as where a kernel fills up its blocks."""
    if x.dim() == 2 and x.stride(1) == 1 and x.stride(0) > x.shape[1] > 0:
        rows, columns = x.shape
        x.data.as_strided((rows, x.stride(0) - columns), x.stride(), x.storage_offset() + columns).zero_()
    return pair(x, y)


def _as_if_contiguous_if_recorded(x, y, g, h):
    """Another way where the backward is to be differentiated."""
    return pair_backward(x, y, _as_if_contiguous(g) if torch.is_grad_enabled() else g, h)


MEMORY_MISTAKES: dict[str, dict[str, Mistake]] = {
    "layouts": {
        "a cotangent's strides ignored": Mistake(
            pair_function(backward=_cotangent_as_if_contiguous).apply, ("vjp", "vjp_partial", "input_subsets")
        ),
        "a cotangent of stride 0": Mistake(pair_function(backward=first_row_only).apply, ("vjp", "input_subsets")),
        "an input's strides ignored": Mistake(
            lambda x, y: pair(_as_if_contiguous(x), y), ("forward", "vjp", "jvp", "vjp_of_vjp")
        ),
        "a cotangent's strides ignored with create_graph": Mistake(
            pair_function(backward=_as_if_contiguous_if_recorded).apply, ("vjp", "vjp_of_vjp", "purity")
        ),
        "writes between the rows": Mistake(_pads_rows, ("forward", "vjp", "purity", "in_place")),
    },
    "purity": {
        "writes to its cotangent": Mistake(pair_function(backward=_writes_to_cotangent).apply, ("forward", "vjp")),
        "writes to its input": Mistake(_writes_to_input, ("forward",)),
        "writes to its output": Mistake(_writes_to_output_in_backward(), ("forward", "vjp")),
        "writes to its tangent": Mistake(pair_function(jvp=_writes_to_tangent).apply, ("forward", "vjp", "jvp")),
        "writes to its input, and restores it": Mistake(
            pair_function(_writes_and_restores).apply, ("forward", "vjp", "in_place", "saved_tensors")
        ),
        "keeps state": Mistake(KeepsState.apply, ("forward", "vjp")),
    },
}
