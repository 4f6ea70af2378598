"""roma: the rotation that is closest to a matrix, with derivatives of its own."""

import jax.numpy as jnp
import roma

from gradparity import OpSpec


def polar(m):
    """m (mᵀm)^(-1/2), of matrices of positive determinant near the identity, by Newton's iteration to rounding."""
    r = m
    for _ in range(8):
        r = (r + jnp.linalg.inv(r).T) / 2
    return r


def near_the_identity(rng, shape):
    return 0.3 * rng.uniform(-1, 1, shape)


spec = OpSpec(
    "special_procrustes",
    lambda e: polar(jnp.eye(3, dtype=e.dtype) + e),
    "(3,3)->(3,3)",
    domains={"e": near_the_identity},
    dtypes=["float64", "float32"],
)


def candidate(e):
    # Without the damping, which is an error of 1e-10 by choice.
    return roma.special_procrustes(e + e.new_ones(3).diag(), gradient_eps=0.0)
