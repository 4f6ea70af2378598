"""pytorch-tabnet: the first of the two 1.5-entmax probabilities of (x, 0), whose Function saves its output."""

import jax.numpy as jnp
from pytorch_tabnet.sparsemax import entmoid15

from gradparity import OpSpec


def entmoid(x):
    """p = (x/2 - t)² where p + t² = 1, t <= 0, of |x| < 2; then 1 and 0: arXiv:1905.05702, section 2.3."""
    inside = jnp.abs(x) < 2
    z = jnp.where(inside, x, 0) / 2
    p = ((z + jnp.sqrt(2 - z * z)) / 2) ** 2
    return jnp.where(inside, p, jnp.where(x > 0, 1, 0))


spec = OpSpec("entmoid15", entmoid, "(n)->(n)", kinks={"x": (-2.0, 2.0)})
candidate = entmoid15
