"""Conversion of arrays between the frameworks, all of it through NumPy and by copy.

DLPack would alias (a write in PyTorch would change an immutable JAX array) and rejects strided tensors.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import torch

from parity_tests.harness.numbers.formats import FORMATS, Precision


def to_torch(x: np.ndarray, precision: Precision, device: str) -> torch.Tensor:
    """Return a contiguous tensor with the values of a float64 or complex128 array that is exact in the format."""
    # Copy into memory that PyTorch has allocated: a BLAS may sum in another order if the alignment differs.
    values = torch.from_numpy(np.array(x, _double(x), order="C"))
    # In the format before it leaves the CPU: not every device has float64.
    return values.to(getattr(torch, precision.dtype_of(x)), copy=True).to(device)


def constants(
    arrays: Mapping[int, np.ndarray | None], precision: Precision, device: str
) -> dict[int, torch.Tensor | None]:
    """Return the inputs that are not differentiated as tensors: integers unchanged, floats in the format.

    An input that is absent is None.
    """

    def constant(x: np.ndarray | None) -> torch.Tensor | None:
        if x is None:
            return None
        return to_torch(x, precision, device) if x.dtype.kind in "fc" else torch.from_numpy(x.copy()).to(device)

    return {i: constant(x) for i, x in arrays.items()}


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Return the values of a tensor as a new float64 or complex128 array; exact for every format."""
    wide = torch.complex128 if x.is_complex() else torch.float64
    return x.detach().resolve_conj().resolve_neg().cpu().to(wide, copy=True).numpy()


def to_jax(x: torch.Tensor) -> jax.Array:
    """Return a JAX array with a tensor's values, in its dtype, on JAX's default device."""
    # device_put rather than jnp.asarray, which makes XLA compile a program for every shape.
    if not x.is_floating_point():
        return jax.device_put(x.detach().resolve_conj().cpu().numpy().copy())
    return jax.device_put(to_numpy(x).astype(FORMATS[str(x.dtype).removeprefix("torch.")].storage))


def from_jax(x: jax.Array) -> torch.Tensor:
    """Return a tensor with a JAX array's values, in its dtype, on its device."""
    dtype = getattr(torch, x.dtype.name)
    values = np.array(x, np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else np.array(x)
    device = next(iter(x.devices()))
    return torch.from_numpy(values).to(dtype).to("cpu" if device.platform == "cpu" else f"cuda:{device.id}")


def as_given(x: np.ndarray | jax.Array | torch.Tensor) -> np.ndarray:
    """Return an array of any framework as a new NumPy array: integers stay integers, other numbers are widened."""
    if isinstance(x, torch.Tensor):
        is_integer = not (x.is_floating_point() or x.is_complex())
        return x.detach().cpu().numpy().copy() if is_integer else to_numpy(x)
    return np.array(x) if np.asarray(x).dtype.kind in "iub" else as_double(x)


def as_double(x: np.ndarray | jax.Array | torch.Tensor) -> np.ndarray:
    """Return the real or complex values of an array of any framework as a new float64 or complex128 array."""
    return to_numpy(x) if isinstance(x, torch.Tensor) else np.array(x).astype(_double(np.asarray(x)))


def _double(x: np.ndarray) -> type:
    return np.complex128 if np.iscomplexobj(x) else np.float64
