"""Keys that identify arrays in a dictionary without a copy of their numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import jax
import numpy as np
import torch

from parity_tests.harness.numbers import conversion


def fingerprint(x: np.ndarray | None) -> tuple[tuple[int, ...], str, bytes] | None:
    """Return a key that is equal for arrays of the same shape, dtype and bits only, but for collisions of BLAKE2b.

    Of an optional input that is absent it is None.
    """
    if x is None:
        return None
    return x.shape, x.dtype.str, hashlib.blake2b(x.tobytes(), digest_size=16).digest()


def contents(value: Any) -> Hashable:
    """Return a key for a value that may hold arrays: with all of their numbers, which `repr` would abbreviate."""
    leaves, structure = jax.tree.flatten(value)
    return structure, *map(_of_leaf, leaves)


def _of_leaf(x: Any) -> Hashable:
    if isinstance(x, torch.Tensor):
        inexact = x.is_floating_point() or x.is_complex()
        return str(x.dtype), fingerprint(conversion.to_numpy(x) if inexact else x.cpu().numpy())
    return fingerprint(np.asarray(x)) if isinstance(x, np.ndarray | jax.Array) else (type(x), repr(x))
