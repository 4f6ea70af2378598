"""pytorch-wavelets: one level of a transform of images (db2, padding "symmetric"), with a backward of its own."""

import sys
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pywt
import torch

from gradparity import OpSpec

# The package imports pkg_resources, which setuptools no longer has, for another transform.
pkg_resources = ModuleType("pkg_resources")
pkg_resources.resource_stream = None  # type: ignore[attr-defined]
sys.modules.setdefault("pkg_resources", pkg_resources)

from pytorch_wavelets import DWTForward  # noqa: E402

torch.set_default_dtype(torch.float64)  # in which the filters are rounded
transforms = {torch.float64: DWTForward(J=1, wave="db2", mode="symmetric")}
torch.set_default_dtype(torch.float32)
transforms[torch.float32] = DWTForward(J=1, wave="db2", mode="symmetric")


def matrices(n):
    """The low and high pass of n numbers, by PyWavelets."""
    return pywt.dwt(np.eye(n), "db2", mode="symmetric", axis=0)


def dwt(x):
    (low_n, high_n), (low_m, high_m) = matrices(x.shape[0]), matrices(x.shape[1])
    pairs = [(low_n, low_m), (high_n, low_m), (low_n, high_m), (high_n, high_m)]
    return jnp.stack([jnp.asarray(a, x.dtype) @ x @ jnp.asarray(b.T, x.dtype) for a, b in pairs])


spec = OpSpec(
    "dwt",
    dwt,
    "(n,m)->(4,p,q)",
    sizes="n % 2 == 0, m % 2 == 0, n >= 4, m >= 4, p = n // 2 + 1, q = m // 2 + 1",
    dtypes=["float64", "float32"],
)


def candidate(x):
    low, (high,) = transforms[x.dtype](x[None, None])
    return torch.cat([low[0], high[0, 0]])
