"""quax: a product with a low-rank update that is never formed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
from quax.examples import lora

from gradparity import JaxCandidate, OpSpec


def product(w, a, b, x):
    updated = lora.LoraArray(w, rank=a.shape[1], stop_gradient=False, key=jax.random.key(0))
    updated = eqx.tree_at(lambda array: (array.a, array.b), updated, (a, b))
    return quax.quaxify(jnp.matmul)(updated, x)


spec = OpSpec("lora_product", lambda w, a, b, x: (w + a @ b) @ x, "(n,m),(n,r),(r,m),(m,k)->(n,k)")
candidate = JaxCandidate(product)
