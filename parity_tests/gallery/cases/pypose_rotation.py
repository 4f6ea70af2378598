"""pypose: a rotation by a vector of so(3), by Functions on the Lie group."""

import jax.numpy as jnp
import pypose

from gradparity import OpSpec


def rotate(w, x):
    """Rodrigues' formula: x + sin(a)/a w×x + (1 - cos(a))/a² w×(w×x), a = |w|."""
    a = jnp.sqrt((w**2).sum(-1, keepdims=True))
    once = jnp.cross(w, x)
    return x + jnp.sin(a) / a * once + 2 * (jnp.sin(a / 2) / a) ** 2 * jnp.cross(w, once)


spec = OpSpec("rotate", rotate, "(n,3),(n,3)->(n,3)", domains={"w": "positive"}, dtypes=["float64", "float32"])


def candidate(w, x):
    return pypose.so3(w).Exp().Act(x)
