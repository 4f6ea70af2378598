"""torch-dct: the discrete cosine transform of type II, by a Fourier transform."""

import jax.numpy as jnp
from torch_dct import dct

from gradparity import OpSpec


def transform(x):
    """2 sum of x[j] cos(pi k (2j + 1) / 2n)."""
    n = x.shape[-1]
    k = jnp.arange(n)
    phase = (k[:, None] * (2 * k + 1)) % (4 * n)
    return 2 * x @ jnp.cos(jnp.pi * phase.astype(x.dtype) / (2 * n)).T


spec = OpSpec("dct", transform, "(b,n)->(b,n)", input_names=("x",), sizes="n >= 1", dtypes=["float64", "float32"])


def candidate(x):
    return dct(x)
