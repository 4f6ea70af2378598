"""flax: dot-product attention."""

import jax
import jax.numpy as jnp
from flax import nnx

from gradparity import JaxCandidate, OpSpec


def attention(q, k, v):
    scores = jnp.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    return jnp.einsum("hqk,khe->qhe", jax.nn.softmax(scores, axis=-1), v)


spec = OpSpec("dot_product_attention", attention, "(n,h,d),(m,h,d),(m,h,d)->(n,h,d)", sizes="m >= 1, d >= 1")
candidate = JaxCandidate(nnx.dot_product_attention)
