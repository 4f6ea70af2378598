"""ott-jax: the principal branch of Lambert's W, by Halley's iteration with a custom_jvp."""

import jax.numpy as jnp
from ott.math.utils import lambertw

from gradparity import JaxCandidate, OpSpec


def w_of(z):
    """Newton's method for w exp(w) = z from above, which its last step makes exact to rounding."""
    w = jnp.log1p(z)
    for _ in range(8):
        e = jnp.exp(w)
        w = w - (w * e - z) / (e * (1 + w))
    return w


spec = OpSpec(
    "lambertw",
    w_of,
    "(n)->(n)",
    domains={"z": "positive"},
    vjp=lambda z, w_bar: (w_bar / (jnp.exp(w_of(z)) * (1 + w_of(z))),),
    dtypes=["float64"],
)
candidate = JaxCandidate(lambertw)
