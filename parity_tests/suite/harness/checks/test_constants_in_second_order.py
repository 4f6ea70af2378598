"""A double backward that is wrong where a cotangent, or an input, needs no gradient, is convicted by vjp_of_vjp."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness._ops import judged

SPEC = OpSpec("sin_w", lambda x, w: jnp.sin(x) * w, "(n),(n)->(n)", input_names=("x", "w"))


def _sin_w(mistake: str) -> Callable:
    """sin(x) w, with a backward that has a derivative by hand; `mistake`: the argument without a gradient, or none."""

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, g):
            ctx.save_for_backward(x, w, g)
            return g * w * torch.cos(x), g * torch.sin(x)

        @staticmethod
        def backward(ctx, a, b):
            x, w, g = ctx.saved_tensors
            x_needed, w_needed, g_needed = ctx.needs_input_grad
            c, s = torch.cos(x), torch.sin(x)
            x_bar, g_bar = b * g * c - a * g * w * s, a * w * c + b * s
            if mistake == "a cotangent" and not g_needed:
                x_bar = -a * g * w * s
            if mistake == "w" and not w_needed:
                x_bar = -a * g * s
            if mistake == "x" and not x_needed:
                g_bar = a * w * c
            return x_bar, a * g * c, g_bar

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return torch.sin(x) * w

        @staticmethod
        def backward(ctx, g):
            return Backward.apply(*ctx.saved_tensors, g)

    return lambda x, w: Forward.apply(x, w)


@pytest.mark.parametrize("mistake", ["a cotangent", "w", "x"])
def test_what_is_wrong_with_a_constant_is_convicted(mistake: str) -> None:
    row = judged(_sin_w(mistake), SPEC, "vjp_of_vjp")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert mistake in row.failure.wrong[0].circumstance


def test_a_right_one_passes() -> None:
    row = judged(_sin_w(""), SPEC, "vjp_of_vjp")
    assert row.verdict is Verdict.PASS, row.reason
