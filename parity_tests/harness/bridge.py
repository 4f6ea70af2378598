"""The one place where arrays cross between the frameworks: through NumPy, by copy.

DLPack would alias (a write in PyTorch would change an immutable JAX array) and rejects strided tensors.
"""

from __future__ import annotations

import jax
import numpy as np
import torch

from parity_tests.harness.precision import Precision


def to_torch(x: np.ndarray, precision: Precision, device: str) -> torch.Tensor:
    """A contiguous tensor with the values of a float64 array that is exact in the format."""
    return torch.from_numpy(np.array(x, np.float64, order="C")).to(device, getattr(torch, precision.name))


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """The values of a tensor as a new float64 array; exact for every format up to float64."""
    return x.detach().resolve_neg().to("cpu", torch.float64, copy=True).numpy()


def as_float64(x: np.ndarray | jax.Array | torch.Tensor) -> np.ndarray:
    """The values of anybody's floating-point array as a new float64 array."""
    return to_numpy(x) if isinstance(x, torch.Tensor) else np.array(x).astype(np.float64)
