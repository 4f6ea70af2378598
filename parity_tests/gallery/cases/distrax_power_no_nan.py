"""distrax: a power that is 1 where the exponent is 0, with a custom_jvp; here the square."""

import jax.numpy as jnp
from distrax._src.utils.math import power_no_nan

from gradparity import JaxCandidate, OpSpec

spec = OpSpec("power_no_nan", lambda x: x * x, "(n)->(n)", input_names=("x",))
candidate = JaxCandidate(lambda x: power_no_nan(x, jnp.asarray(2, x.dtype)), "power_no_nan")
