"""Small operators, and shorthands that the tests of the harness share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from parity_tests import OpSpec, Report, crosscheck
from parity_tests.harness.report.results import ORACLE, Row


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def rows(report: Report) -> list[Row]:
    """The candidate's rows, without the oracle's certificates."""
    return [row for row in report.rows if row.candidate != ORACLE]


def judged(call: Callable, spec: OpSpec, check: str, dtype: str = "float64", **options: Any) -> Row:
    """The candidate's row under one check in one dtype."""
    (row,) = rows(crosscheck(call, spec, checks=[check], dtypes=[dtype], **options))
    return row


def hypot_by_a_ratio(x: jax.Array, y: jax.Array) -> jax.Array:
    """`hypot` as `jnp.hypot` computed it before JAX 0.12: no square overflows or underflows.

    Where x = y, its second derivative by JAX is 0; it should be 0.35 at 1.
    """
    x, y = jnp.abs(x), jnp.abs(y)
    larger = jnp.maximum(x, y)
    return larger * jnp.sqrt(1 + jnp.square(jnp.minimum(x, y) / jnp.where(larger == 0, 1, larger)))


# One input, one output, linear: square, so that it can be transposed.
SQUARE = OpSpec("square", primal=lambda x: x * x, inputs=(normal(3, 3),))


# Two inputs, two outputs, each of both inputs and none of them linear: no derivative of order one or two vanishes.


def _pair(x, y):
    return jnp.tanh(x) * y, x * y * y


PAIR = OpSpec("pair", primal=_pair, inputs=(normal(3, 4), normal(3, 4, seed=1)), output_names=("first", "second"))

# The same at inputs that the harness makes, among them special points.
MADE_PAIR = OpSpec("pair", primal=_pair, signature="(n,m),(n,m)->(n,m),(n,m)", output_names=("first", "second"))


def pair(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operator in PyTorch."""
    return torch.tanh(x) * y, x * y * y


def pair_backward(
    x: torch.Tensor, y: torch.Tensor, first_bar: torch.Tensor, second_bar: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Its VJP."""
    t = torch.tanh(x)
    return (1 - t * t) * y * first_bar + y * y * second_bar, t * first_bar + 2 * x * y * second_bar


def pair_jvp(
    x: torch.Tensor, y: torch.Tensor, x_dot: torch.Tensor, y_dot: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Its JVP."""
    t = torch.tanh(x)
    return (1 - t * t) * y * x_dot + t * y_dot, y * y * x_dot + 2 * x * y * y_dot


def pair_function(
    forward: Callable = pair, backward: Callable = pair_backward, jvp: Callable = pair_jvp
) -> type[torch.autograd.Function]:
    """A custom Function made of these three."""
    forward_, backward_, jvp_ = forward, backward, jvp

    class Pair(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return forward_(x, y)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, *cotangents):
            return backward_(*ctx.saved_tensors, *cotangents)

        @staticmethod
        def jvp(ctx, *tangents):
            return jvp_(*ctx.saved_tensors, *tangents)

    return Pair


class Pair(torch.autograd.Function):
    """The operator as a Function; a planted mistake changes one thing."""

    @staticmethod
    def forward(x, y):
        return pair(x, y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return pair_backward(*ctx.saved_tensors, *cotangents)


class PairWithJvp(Pair):
    """The same with forward mode and batches."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, x_dot, y_dot):
        return pair_jvp(*ctx.saved_tensors, x_dot, y_dot)


class LazyPair(Pair):
    """The same without materialized cotangents: an undefined one is None, and `backward` must be overridden."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)


def pair_operator(name: str, kernel: Callable = pair, fake: Callable = pair) -> Callable:
    """The operator as one of `torch.ops`, with the right gradients."""
    op = torch.library.custom_op(
        f"gradparity_tests::{name}", kernel, mutates_args=(), schema="(Tensor x, Tensor y) -> (Tensor, Tensor)"
    )
    op.register_fake(fake)
    op.register_autograd(
        lambda ctx, g, h: pair_backward(*ctx.saved_tensors, g, h),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


RIGHT_OPERATOR = pair_operator("pair")


def pair_slope(vjp: Callable) -> type[torch.autograd.Function]:
    """`pair_backward` as a custom Function, whose own VJP is vjp(x, y, g, h, cotangents...)."""

    class PairSlope(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y, g, h):
            return pair_backward(x, y, g, h)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, *cotangents):
            return vjp(*ctx.saved_tensors, *cotangents)

    return PairSlope


class Square(torch.autograd.Function):
    """x² as a Function without jvp and vmap; what a test needs besides, it adds."""

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangents[0]


def unary_function(forward: Callable, backward: Callable) -> Callable[[torch.Tensor], torch.Tensor]:
    """A custom Function of one input and one output: forward(x), backward(x, output_bar)."""
    forward_, backward_ = forward, backward

    class Unary(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward_(x)

        @staticmethod
        def backward(ctx, *cotangents):
            return backward_(*ctx.saved_tensors, *cotangents)

    return Unary.apply  # type: ignore[return-value]


def tensors(arrays: Sequence[np.ndarray]) -> list[torch.Tensor]:
    """float64 leaves that require a gradient."""
    return [torch.tensor(x, requires_grad=True) for x in arrays]
