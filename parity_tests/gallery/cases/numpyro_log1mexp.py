"""numpyro: log(1 - exp(x)) of negative x, with a custom_jvp."""

import jax.numpy as jnp
from numpyro.distributions.util import log1mexp

from gradparity import JaxCandidate, OpSpec

spec = OpSpec("log1mexp", lambda u: jnp.log(-jnp.expm1(-u)), "(n)->(n)", input_names=("u",), domains={"u": "positive"})
candidate = JaxCandidate(lambda u: log1mexp(-u), "log1mexp")
