"""e3nn-jax: the spherical harmonics of degree 2, with a custom_jvp."""

import e3nn_jax
import jax.numpy as jnp

from gradparity import JaxCandidate, OpSpec


def degree_2(v):
    """The five polynomials of degree 2 in the order of e3nn, y polar, of norm |v|²."""
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    root = jnp.sqrt(jnp.asarray(3, v.dtype))
    return jnp.stack(
        [root * x * z, root * x * y, y * y - (x * x + z * z) / 2, root * y * z, root / 2 * (z * z - x * x)], axis=-1
    )


def harmonics(v):
    return e3nn_jax.spherical_harmonics("2e", v, normalize=False, normalization="norm").array


spec = OpSpec("spherical_harmonics", degree_2, "(n,3)->(n,5)", sizes="n >= 1", dtypes=["float64", "float32"])
candidate = JaxCandidate(harmonics)
