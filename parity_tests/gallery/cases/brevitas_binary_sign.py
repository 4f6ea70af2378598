"""brevitas: the sign in {-1, 1} with the gradient of the identity."""

import jax.numpy as jnp
from brevitas.ops.autograd_ste_ops import binary_sign_ste_impl

from gradparity import OpSpec

spec = OpSpec(
    "binary_sign_ste",
    lambda x: jnp.where(x >= 0, 1.0, -1.0) * jnp.ones_like(x),
    "(n)->(n)",
    input_names=("x",),
    surrogate=lambda x, w: (w,),
)


def candidate(x):
    return binary_sign_ste_impl(x)
