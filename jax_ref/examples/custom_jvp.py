"""custom_jvp: a better derivative than that of the composition. JAX transposes it, so reverse mode comes with it."""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import erfc


@jax.custom_jvp
def gelu(x: jax.Array) -> jax.Array:
    """x Φ(x), for x of any shape."""
    return x * erfc(-x / 2**0.5) / 2


@gelu.defjvp
def _gelu_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    phi = jnp.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return gelu(x), (erfc(-x / 2**0.5) / 2 + x * phi) * x_dot
