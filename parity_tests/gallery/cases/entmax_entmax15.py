"""entmax: 1.5-entmax, whose Function saves its output."""

import jax.numpy as jnp
from entmax import entmax15

from gradparity import OpSpec


def entmax(x):
    """max(x/2 - t, 0)², where t makes the sum 1: B. Peters, V. Niculae, A. Martins, arXiv:1905.05702, section 2.3.

    Of the entries in descending order the k-th is in the support if those before it do not reach 1 by themselves.
    """
    x = x - x.max(-1, keepdims=True)  # which is the same, and rounds as implementations do
    z = -jnp.sort(-x / 2, axis=-1)
    above = jnp.maximum(z[..., None, :] - z[..., :, None], 0)
    in_support = (above**2).sum(-1) < 1
    k = in_support.sum(-1, keepdims=True).astype(x.dtype)
    mean = jnp.where(in_support, z, 0).sum(-1, keepdims=True) / k
    spread = jnp.where(in_support, (z - mean) ** 2, 0).sum(-1, keepdims=True)
    t = mean - jnp.sqrt((1 - spread) / k)
    return jnp.maximum(x / 2 - t, 0) ** 2


spec = OpSpec("entmax15", entmax, "(n,d)->(n,d)", sizes="d >= 1")
candidate = entmax15
