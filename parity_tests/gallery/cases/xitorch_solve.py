"""xitorch: the solution of a linear system, whose Function differentiates implicitly; by a direct method."""

import jax.numpy as jnp
import xitorch
from xitorch.linalg import solve

from gradparity import OpSpec

spec = OpSpec(
    "solve",
    lambda a, b: jnp.linalg.solve(a, b),
    "(n,n),(n,k)->(n,k)",
    domains={"a": "well-conditioned"},
    sizes="n >= 1, k >= 1",
    dtypes=["float64", "float32"],
)


def candidate(a, b):
    return solve(
        xitorch.LinearOperator.m(a), b, method="custom_exactsolve", bck_options={"method": "custom_exactsolve"}
    )
