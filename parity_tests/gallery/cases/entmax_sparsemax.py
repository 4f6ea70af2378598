"""entmax: sparsemax, the projection onto the simplex, whose Function has a backward of its own."""

import jax.numpy as jnp
from entmax import sparsemax

from gradparity import OpSpec


def projection(x):
    """max(x - t, 0), where t makes the sum 1: A. Martins, R. Astudillo, arXiv:1602.02068, proposition 1.

    Of x less its largest entry, as implementations have it, which is the same and rounds once more.
    """
    x = x - x.max(-1, keepdims=True)
    z = -jnp.sort(-x, axis=-1)
    count = jnp.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    in_support = 1 + count * z > jnp.cumsum(z, axis=-1)
    t = (jnp.where(in_support, z, 0).sum(-1, keepdims=True) - 1) / in_support.sum(-1, keepdims=True).astype(x.dtype)
    return jnp.maximum(x - t, 0)


spec = OpSpec("sparsemax", projection, "(n,d)->(n,d)", sizes="d >= 1")
candidate = sparsemax
