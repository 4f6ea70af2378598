"""Raw memory: a Pallas kernel, which writes into a reference, and a custom_vjp around it."""

import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.scipy.special import erfc


def _kernel(x_ref, y_ref):
    x = x_ref[...]
    y_ref[...] = x * erfc(-x / 2**0.5) / 2


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """x Φ(x), for x of any shape; interpreted, so that it runs on any machine. Forward mode: a custom_vjp has none."""
    if x.size == 0:  # Pallas divides by the size of a block
        return x
    return pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)


def _forward(x):
    return gelu(x), x


def _backward(x, y_bar):
    phi = jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return (y_bar * (erfc(-x / 2**0.5) / 2 + x * phi),)


gelu.defvjp(_forward, _backward)
