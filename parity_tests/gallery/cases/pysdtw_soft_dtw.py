"""pysdtw: soft dynamic time warping of a matrix of distances, compiled by Numba."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from pysdtw.sdtw_cpu import SoftDTWcpu

from gradparity import OpSpec


def soft_dtw(distances):
    """r[i, j] = d[i, j] + softmin(r[i-1, j-1], r[i-1, j], r[i, j-1]): M. Cuturi, M. Blondel, arXiv:1703.01541."""
    rows, columns = distances.shape
    r = {(0, 0): jnp.zeros((), distances.dtype)}
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            before = [r[place] for place in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if place in r]
            r[i, j] = distances[i - 1, j - 1] - jax.nn.logsumexp(-jnp.stack(before))
    return r[rows, columns]


rng = np.random.default_rng(0)
spec = OpSpec("soft_dtw", soft_dtw, inputs=(rng.uniform(0, 2, (3, 4)),), dtypes=["float64", "float32"])


def candidate(distances):
    return SoftDTWcpu.apply(distances[None], torch.tensor([distances.shape]), 1.0, 0.0)[0]
