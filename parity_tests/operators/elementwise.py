"""Elementwise operators: compositions whose plain form loses its digits, a clamp, tanh."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# log(1 - exp(-x)) for x > 0


def _log1mexp(x):
    return jnp.log(-jnp.expm1(-x))  # up to x = 2 as good as the other branch


def _log1mexp_torch(x):
    return torch.log(-torch.expm1(-x))


def small_and_large(rng, shape):
    """Positive numbers from 2⁻⁹ to 2; of the smallest the second derivative, or a part of it, overflows in float16."""
    return 2.0 ** rng.uniform(-9, 1, shape)


log1mexp = Operator(
    OpSpec("log1mexp", _log1mexp, "(n)->(n)", domains={"x": small_and_large}),
    _log1mexp_torch,
    {
        "plain": Mistake(lambda x: torch.log(1 - torch.exp(-x)), "forward", "bfloat16"),
        "plain_in_low_precision": Mistake(lambda x: torch.log1p(-torch.exp(-x)), "forward", "float32"),
        "sign": Mistake(function(_log1mexp_torch, lambda x, w: -w / torch.expm1(x)), "vjp"),
        "cancelling_backward": Mistake(
            function(_log1mexp_torch, lambda x, w: w * torch.exp(-x) / (1 - torch.exp(-x))),
            "vjp",
            "float32",
            ("forward",),
        ),
    },
)


# clamp to [-0.9, 0.3], which no 16-bit number is: at a kink every subgradient is right.


def _clamp(x):
    return jnp.where(x < -0.9, -0.9, jnp.where(x > 0.3, 0.3, x))


def _clamp_torch(x):
    return torch.clamp(x, -0.9, 0.3)


clamp = Operator(
    OpSpec("clamp", _clamp, "(n,m)->(n,m)"),
    _clamp_torch,
    {
        "one_sided_mask": Mistake(function(_clamp_torch, lambda x, w: w * (x < 0.3)), "vjp", passes=("forward",)),
        "straight_through": Mistake(function(_clamp_torch, lambda x, w: w * 1), "vjp", passes=("forward",)),
        "cotangent_clamped": Mistake(
            function(_clamp_torch, lambda x, w: torch.clamp(w, -1, 1) * ((x > -0.9) & (x < 0.3))), "vjp"
        ),
    },
)

tanh = Operator(
    OpSpec("tanh", jnp.tanh, "(n)->(n)", input_names=("x",)),
    torch.tanh,
    {
        "output_saved_as_16_bits": Mistake(
            function(torch.tanh, lambda x, w: w * (1 - torch.tanh(x).bfloat16().to(x.dtype) ** 2)), "vjp", "float32"
        ),
        "one_minus_square_in_low_precision": Mistake(
            function(torch.tanh, lambda x, w: w * (1 - (torch.tanh(x).bfloat16() ** 2).to(x.dtype))), "vjp", "float32"
        ),
    },
)
