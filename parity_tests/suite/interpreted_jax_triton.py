"""jax-triton where there is no GPU: its `triton_call` as a callback, in which Triton's interpreter runs the kernel."""

# Triton is not a requirement
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np
import torch


def triton_call(
    *operands: jax.Array,
    kernel: Any,
    out_shape: Sequence[jax.ShapeDtypeStruct],
    grid: Callable,
    name: str,
    **constants: Any,
) -> list[jax.Array]:
    """As `jax_triton.triton_call`, for a kernel that was defined while Triton interprets."""

    def run(*arrays: jax.Array) -> list[np.ndarray]:
        tensors = [
            torch.frombuffer(bytearray(np.asarray(x).tobytes()), dtype=_dtype(x)).reshape(x.shape) for x in arrays
        ]
        results = [torch.full(y.shape, torch.nan, dtype=_dtype(y)) for y in out_shape]  # memory of no kernel
        with np.errstate(all="ignore"):  # NumPy, in which it computes, warns of inf * 0 where a GPU does not
            kernel[grid(constants)](*tensors, *results, **constants)
        return [y.view(torch.uint8).numpy().view(x.dtype) for x, y in zip(out_shape, results, strict=True)]

    return jax.pure_callback(run, list(out_shape), *operands)


def _dtype(x: Any) -> torch.dtype:
    return getattr(torch, str(x.dtype))


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """In the block `jax_ref.gpu` runs on the CPU. Triton must interpret: TRITON_INTERPRET=1 before it is imported."""
    from jax_ref.gpu import _launch

    with mock.patch.object(_launch, "triton_call", triton_call):
        yield
