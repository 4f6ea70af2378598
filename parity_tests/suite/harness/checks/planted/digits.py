"""Results without correct digits, within the bound of an oracle that cancels, too; and one that is wrong far out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function, unary_function


def _wrong_far_out(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return torch.where((x.abs() > 75) & (x.abs() < 95), 2 * x_bar, x_bar), y_bar


def unary(name: str, primal: Callable) -> OpSpec:
    """A function of each number, which is to be computed to all digits."""
    return OpSpec(name, primal=primal, signature="(n)->(n)", accurate=True)


# The derivative of JAX 0.10 written out: a newer JAX has exp(x), which loses nothing.
EXPM1 = dataclasses.replace(
    unary("expm1", jnp.expm1),
    vjp=lambda x, y_bar: (jnp.expm1(x) + 1) * y_bar,
    jvp=lambda x, x_dot: (jnp.expm1(x) + 1) * x_dot,
)
TANH = unary("tanh", jnp.tanh)
HYPOT = OpSpec("hypot", primal=lambda x, y: jnp.sqrt(x * x + y * y), signature="(n),(n)->(n)", accurate=True)


def sech2(x: torch.Tensor) -> torch.Tensor:
    """1 / cosh²."""
    e = torch.exp(-2 * x.abs())
    return 4 * e / (1 + e) ** 2


CANCELS = ("forward", "vjp", "jvp", "points")

CASES = (
    Operator(
        MADE_PAIR,
        pair,
        {
            "wrong far out": Mistake(
                pair_function(backward=_wrong_far_out).apply, "digits", "float64", passes=("forward", "vjp", "points")
            ),
        },
    ),
    Operator(
        EXPM1,
        unary_function(torch.expm1, lambda x, g: torch.exp(x) * g),
        {
            "expm1' = expm1 + 1": Mistake(torch.expm1, "digits", "float32", CANCELS),
            "expm1' = expm1 + 1, bfloat16": Mistake(torch.expm1, "digits", "bfloat16", CANCELS),
            "expm1' = expm1 + 1, float64": Mistake(torch.expm1, "digits", "float64", CANCELS),
        },
    ),
    Operator(
        TANH,
        unary_function(torch.tanh, lambda x, g: g * sech2(x)),
        {"tanh' = 1 - tanh²": Mistake(torch.tanh, "digits", "float32", CANCELS)},
    ),
    Operator(
        HYPOT,
        torch.hypot,
        {"squares that underflow": Mistake(lambda x, y: torch.sqrt(x * x + y * y), "digits", "float32", CANCELS[:3])},
    ),
)
