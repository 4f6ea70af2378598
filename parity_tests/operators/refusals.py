"""Backwards that raise: at an empty axis that is a refusal, as right as one in the forward, and elsewhere a mistake."""

from __future__ import annotations

import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function


def _scaled(x, w):
    return x * w, (x * w).sum(1)


def _backward(x, w, scaled_bar, sums_bar):
    g = scaled_bar + sums_bar[:, None]
    return g * w, (x * g).reshape(-1, w.shape[0]).sum(0)  # PyTorch raises where w is empty: the -1 may be anything


def _by_the_mean(x, w, scaled_bar, sums_bar):
    """Right but for no rows, where the mean is 0/0."""
    g = scaled_bar + sums_bar[:, None]
    return g * w, (x * g).mean(0) * len(x)


def _one_row_only(x, w, scaled_bar, sums_bar):
    """Raises for several rows, which hides that it has dropped a term for one."""
    if len(x) > 1:
        raise RuntimeError("one row at a time")
    return scaled_bar * w, (x * scaled_bar).sum(0)


class _NeedsBoth(torch.autograd.Function):
    """Takes absent cotangents as they come, and computes with them."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        return _scaled(x, w)

    @staticmethod
    def backward(ctx, *output_bars):
        return _backward(*ctx.saved_tensors, *output_bars)


scaled_rows = Operator(
    OpSpec("scaled_rows", _scaled, "(n,d),(d)->(n,d),(n)", input_names=("x", "w"), output_names=("scaled", "sums")),
    function(_scaled, _backward),
    {
        "raises_without_a_cotangent": Mistake(_NeedsBoth.apply, "vjp_partial", passes=("vjp",)),
        "nan_for_no_rows": Mistake(function(_scaled, _by_the_mean), "vjp", passes=("forward",)),
        "raises_or_is_wrong": Mistake(function(_scaled, _one_row_only), "vjp", passes=("forward",)),
    },
)
