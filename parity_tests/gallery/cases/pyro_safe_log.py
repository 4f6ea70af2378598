"""pyro-ppl: a logarithm whose gradient is bounded by 1 / eps."""

import jax.numpy as jnp
from pyro.ops.special import safe_log

from gradparity import OpSpec

spec = OpSpec(
    "safe_log",
    jnp.log,
    "(n)->(n)",
    input_names=("x",),
    domains={"x": "positive"},
    surrogate=lambda x, y_bar: (y_bar / jnp.maximum(x, 2.0**-52),),
    dtypes=["float64"],
)
candidate = safe_log
