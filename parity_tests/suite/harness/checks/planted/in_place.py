"""Saved tensors whose edits autograd does not notice."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, normal, pair


class DataSaved(Pair):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*(x.data for x in inputs))


# An output that is the input, beside another one.
PASSED_ON = OpSpec("passed_on", primal=lambda x: (jnp.tanh(x), 1 * x), inputs=(normal(3, 4),))


def _passed_on(returned):
    class PassedOn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            t = torch.tanh(x)
            ctx.save_for_backward(t)
            return t, returned(x, t)

        @staticmethod
        def backward(ctx, first_bar, second_bar):
            (t,) = ctx.saved_tensors
            return (1 - t * t) * first_bar + second_bar

    return PassedOn.apply


_PASSES = ("forward", "vjp", "purity", "saved_tensors")
CASES = (
    Operator(PAIR, pair, {"saves x.data": Mistake(DataSaved.apply, "in_place", passes=_PASSES)}),
    Operator(
        PASSED_ON,
        lambda x: (torch.tanh(x), x),  # as PyTorch itself does where there is nothing to compute
        {"returns x.data": Mistake(_passed_on(lambda x, t: x.data), "in_place", passes=_PASSES)},
    ),
    Operator(
        replace(PASSED_ON, name="viewed"),
        _passed_on(lambda x, t: x.view_as(x)),
        {"returns a view of x.data": Mistake(_passed_on(lambda x, t: x.data[:]), "in_place", passes=_PASSES)},
    ),
)
