"""snntorch: a spike whose surrogate gradient is that of a fast sigmoid."""

import jax.numpy as jnp
from snntorch.surrogate import fast_sigmoid

from gradparity import OpSpec

# F. Zenke, S. Ganguli, "SuperSpike", Neural Computation 30, 2018. The spike is float32, whatever the input is.
spec = OpSpec(
    "fast_sigmoid",
    lambda x: jnp.where(x > 0, 1.0, 0.0) * jnp.ones_like(x),
    "(n)->(n)",
    input_names=("x",),
    surrogate=lambda x, w: (w / (1 + 25 * jnp.abs(x)) ** 2,),
    dtypes=["float32"],
)
candidate = fast_sigmoid(slope=25)
