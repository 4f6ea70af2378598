"""lineax: the solution of a linear system, differentiated implicitly."""

import jax.numpy as jnp
import lineax

from gradparity import JaxCandidate, OpSpec


def solve(matrix, vector):
    return lineax.linear_solve(lineax.MatrixLinearOperator(matrix), vector, lineax.LU()).value


spec = OpSpec(
    "linear_solve",
    lambda matrix, vector: jnp.linalg.solve(matrix, vector),
    "(n,n),(n)->(n)",
    domains={"matrix": "well-conditioned"},
    sizes="n >= 1",
    dtypes=["float64", "float32"],
)
candidate = JaxCandidate(solve)
