"""norse: a spike whose surrogate gradient is that of SuperSpike."""

import jax.numpy as jnp
import torch
from norse.torch.functional.threshold import threshold

from gradparity import OpSpec

# F. Zenke, S. Ganguli, "SuperSpike", Neural Computation 30, 2018.
spec = OpSpec(
    "superspike",
    lambda x: jnp.where(x > 0, 1.0, 0.0) * jnp.ones_like(x),
    "(n)->(n)",
    input_names=("x",),
    surrogate=lambda x, w: (w / (1 + 100 * jnp.abs(x)) ** 2,),
    dtypes=["float64", "float32"],
)


def candidate(x):
    return threshold(x, "super", torch.as_tensor(100.0, dtype=x.dtype))
