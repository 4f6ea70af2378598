"""Functions of JAX with a VJP or a JVP of their own, which candidates are made of."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from parity_tests import OpSpec
from parity_tests.suite.harness._ops import normal

SCALE = OpSpec("scale", primal=lambda x, y: jnp.sin(x) * y, inputs=(normal(3), normal(3, seed=1)))


def pair(x, y):
    return jnp.tanh(x) * y, x * y * y


def pair_vjp(x, y, first_bar, second_bar):
    t = jnp.tanh(x)
    return (1 - t * t) * y * first_bar + y * y * second_bar, t * first_bar + 2 * x * y * second_bar


def pair_jvp(x, y, x_dot, y_dot):
    t = jnp.tanh(x)
    return (1 - t * t) * y * x_dot + t * y_dot, y * y * x_dot + 2 * x * y * y_dot


def custom_vjp(
    backward: Callable, forward: Callable = pair, residuals: Callable | None = None, **options: bool
) -> Callable:
    """`forward` with this VJP: backward(residuals..., cotangents...); the residuals are the inputs by default.

    `options` are those of `defvjp`.
    """
    f = jax.custom_vjp(forward)
    keep = residuals or (lambda *inputs: inputs)

    def fwd(*inputs):
        return forward(*inputs), keep(*inputs)

    def bwd(saved, cotangents):
        return backward(*saved, *(cotangents if isinstance(cotangents, tuple) else (cotangents,)))

    f.defvjp(fwd, bwd, **options)
    return f


def custom_jvp(jvp: Callable, forward: Callable = pair) -> Callable:
    """`forward` with this JVP."""
    f = jax.custom_jvp(forward)
    f.defjvp(lambda primals, tangents: (f(*primals), jvp(*primals, *tangents)))
    return f
