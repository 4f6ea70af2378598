"""An operator of the catalogue, a planted mistake, and how a version is made of formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.findings import Verdict
from parity_tests.harness.specs.spec import OpSpec


@dataclass(frozen=True)
class Mistake:
    """A wrong version of an operator.

    Attributes:
        call: the version.
        caught_by: the check that must catch it.
        dtype: the dtype that it must be caught in.
        passes: checks that do not notice, which shows that it is the one named that is needed.
        verdict: the verdict of the check that must catch it.
    """

    call: Callable | AnyCandidate
    caught_by: str
    dtype: str = "float64"
    passes: tuple[str, ...] = ()
    verdict: Verdict = Verdict.MISMATCH


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator, a right version of it, and wrong ones by their names."""

    spec: OpSpec
    right: Callable | AnyCandidate
    mistakes: Mapping[str, Mistake]


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
