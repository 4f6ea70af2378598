"""linear-operator: bᵀ A⁻¹ b and log det A of a definite matrix, by its Cholesky factor."""

import jax.numpy as jnp
import linear_operator

from gradparity import OpSpec


def inv_quad_logdet(a, b):
    return (b * jnp.linalg.solve(a, b)).sum(), jnp.linalg.slogdet(a)[1]


spec = OpSpec(
    "inv_quad_logdet",
    inv_quad_logdet,
    "(n,n),(n,k)->(),()",
    domains={"a": "definite"},
    sizes="n >= 1, k >= 1",
    dtypes=["float64", "float32"],
)


def candidate(a, b):
    return linear_operator.inv_quad_logdet(a, b, logdet=True)
