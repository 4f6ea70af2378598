"""kymatio: the modulus of complex numbers, with a gradient of 0 at 0, where it has none: a convention."""

import jax.numpy as jnp
from kymatio.backend.torch_backend import ModulusStable

from gradparity import OpSpec


def modulus(x):
    return jnp.sqrt((x**2).sum(-1))


spec = OpSpec("modulus", modulus, "(n,2)->(n)")
candidate = ModulusStable.apply
