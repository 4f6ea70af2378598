"""rotary-embedding-torch: the rotation of pairs of features by angles."""

import jax.numpy as jnp
from rotary_embedding_torch import apply_rotary_emb

from gradparity import OpSpec


def rotated(angles, x):
    """Each pair (a, b) times the matrix of its angle."""
    a, b, t = x[:, 0::2], x[:, 1::2], angles
    cos, sin = jnp.cos(t), jnp.sin(t)
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


spec = OpSpec("rotary", rotated, "(n,h),(n,d)->(n,d)", sizes="d = 2 * h, h >= 1")


def candidate(angles, x):
    return apply_rotary_emb(angles.repeat_interleave(2, -1), x)
