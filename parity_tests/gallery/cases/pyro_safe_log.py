"""pyro-ppl: a logarithm whose gradient is bounded by 1 / eps."""

import jax.numpy as jnp
from pyro.ops.special import safe_log

from gradparity import OpSpec

# Of numbers above eps it is the logarithm.
spec = OpSpec("safe_log", jnp.log, "(n)->(n)", input_names=("x",), domains={"x": "positive"})
candidate = safe_log
