"""A third-party library: pure_callback, and a custom_vjp around it, for JAX differentiates no callback."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


@jax.custom_vjp
def phi_integral(x: jax.Array) -> jax.Array:
    """Φ, by SciPy, on the host. Entry by entry, so that vmap may call it with the whole batch."""
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda a: scipy.special.ndtr(np.asarray(a)), shape, x, vmap_method="expand_dims")


def _forward(x):
    return phi_integral(x), x


def _backward(x, y_bar):
    return (y_bar * jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi),)


phi_integral.defvjp(_forward, _backward)


def gelu(x: jax.Array) -> jax.Array:
    """x Φ(x), for x of any shape, in float64 or float32. Forward mode: a custom_vjp has none."""
    return x * phi_integral(x)
