"""optimistix: the root of x + tanh(x) / 2 = y, differentiated implicitly."""

import jax
import jax.numpy as jnp
import optimistix

from gradparity import JaxCandidate, OpSpec, to_tolerance

TOLERANCE = 1e-14  # at which the iteration ends


@jax.custom_jvp
def root(y):
    """Newton's method, which its steps make exact to rounding."""
    x = y / 1.5
    for _ in range(8):
        t = jnp.tanh(x)
        x = x - (x + t / 2 - y) / (1 + (1 - t * t) / 2)
    return to_tolerance(x, rtol=TOLERANCE, atol=TOLERANCE)


@root.defjvp
def derivative(primals, tangents):
    x = root(*primals)
    t = jnp.tanh(x)
    return x, tangents[0] / (1 + (1 - t * t) / 2)


def find(y):
    solver = optimistix.Newton(rtol=TOLERANCE, atol=TOLERANCE)
    return optimistix.root_find(lambda x, y: x + jnp.tanh(x) / 2 - y, solver, y / 1.5, args=y, max_steps=64).value


spec = OpSpec("root_find", root, "()->()", input_names=("y",), dtypes=["float64"])
candidate = JaxCandidate(find)
