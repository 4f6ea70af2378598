"""How a version of an operator is made of its formulas; and what a case of the collection is."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parity_tests.suite.mistakes import Case as Case
from parity_tests.suite.mistakes import Mistake as Mistake


def function(
    forward: Callable, backward: Callable, jvp: Callable | None = None, vmap: Callable | None = None
) -> Callable:
    """A `torch.autograd.Function`'s `apply`: forward(inputs...), backward(inputs..., output_bars...) -> input_bars,
    jvp(inputs..., input_dots...) -> output_dots, vmap(info, in_dims, inputs...) -> outputs, out_dims."""
    forward_, backward_, jvp_, vmap_ = forward, backward, jvp, vmap

    class Made(torch.autograd.Function):
        generate_vmap_rule = vmap is None

        @staticmethod
        def forward(*inputs):
            return forward_(*inputs)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, *output_bars):
            return backward_(*ctx.saved_tensors, *output_bars)

    if jvp_ is not None:
        Made.jvp = staticmethod(lambda ctx, *dots: jvp_(*ctx.saved_tensors, *dots))
    if vmap_ is not None:
        Made.vmap = staticmethod(vmap_)
    return Made.apply


def saving(forward: Callable, backward: Callable) -> Callable:
    """The same with intermediates: forward(inputs...) -> (output, saved tensors), backward(saved..., output_bar)."""
    forward_, backward_ = forward, backward

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output, saved = forward_(*inputs)
            ctx.save_for_backward(*saved)
            return output

        @staticmethod
        def backward(ctx, *output_bars):
            return backward_(*ctx.saved_tensors, *output_bars)

    return Made.apply
