"""kymatio: the modulus of complex numbers, with a gradient of 0 at 0."""

import jax.numpy as jnp
from kymatio.backend.torch_backend import ModulusStable

from gradparity import OpSpec


def modulus(x):
    square = (x**2).sum(-1)
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


spec = OpSpec("modulus", modulus, "(n,2)->(n)")
candidate = ModulusStable.apply
