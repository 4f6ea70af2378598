"""spikingjelly: a spike whose surrogate gradient is that of an arctangent."""

import jax.numpy as jnp
from spikingjelly.activation_based.surrogate import ATan

from gradparity import OpSpec

# W. Fang et al., arXiv:2007.05785, equation (15), alpha = 2.
spec = OpSpec(
    "atan_spike",
    lambda x: jnp.where(x >= 0, 1.0, 0.0) * jnp.ones_like(x),
    "(n)->(n)",
    input_names=("x",),
    surrogate=lambda x, w: (w / (1 + (jnp.pi * x) ** 2),),
    dtypes=["float64", "float32"],
)


def candidate(x):
    return ATan(alpha=2.0)(x)
