"""vector-quantize-pytorch: the rounding of finite scalar quantization, whose gradient passes as it is."""

import jax
import jax.numpy as jnp
from vector_quantize_pytorch.finite_scalar_quantization import round_ste

from gradparity import OpSpec


def rounded(x):
    """As it is computed: x + (round(x) - x), which rounds more than round(x)."""
    return x + jax.lax.stop_gradient(jnp.round(x) - x)


spec = OpSpec("round_ste", rounded, "(n)->(n)", surrogate=lambda x, w: (w,))
candidate = round_ste
