"""tfp-nightly, the substrate of JAX: the log-determinant of a definite matrix, with a gradient of its own."""

import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

from gradparity import JaxCandidate, OpSpec

spec = OpSpec(
    "hpsd_logdet",
    lambda matrix: jnp.linalg.slogdet(matrix)[1],
    "(n,n)->()",
    domains={"matrix": "definite"},
    sizes="n >= 1",
    dtypes=["float64", "float32"],
)
candidate = JaxCandidate(lambda matrix: tfp.math.hpsd_logdet(matrix), "hpsd_logdet")
