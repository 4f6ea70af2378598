"""ott-jax: the principal branch of Lambert's W, by Halley's iteration with a custom_jvp."""

import jax
import jax.numpy as jnp
from ott.math.utils import lambertw

from gradparity import JaxCandidate, OpSpec, to_tolerance


@jax.custom_jvp
def w_of(z):
    """Newton's method for w exp(w) = z from above, which its last step makes exact to rounding.

    For large z it is of w + log w = log z, since exp(w) would round by u w.
    """
    w, large = jnp.log1p(z), jnp.maximum(z, 1)
    for _ in range(8):
        e = jnp.exp(w)
        w = w - (w * e - z) / (e * (1 + w))
    v = jnp.maximum(w, 0.5)
    for _ in range(2):
        v = v - (v + jnp.log(v) - jnp.log(large)) * v / (1 + v)
    return to_tolerance(jnp.where(z > 1, v, w), rtol=1e-8)  # the `tol` of ott


@w_of.defjvp
def derivative(primals, tangents):
    w = w_of(*primals)
    return w, tangents[0] * jnp.exp(-w) / (1 + w)


spec = OpSpec("lambertw", w_of, "(n)->(n)", domains={"z": "positive"}, input_names=("z",), dtypes=["float64"])
candidate = JaxCandidate(lambertw)
