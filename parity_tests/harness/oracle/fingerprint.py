"""Keys that identify arrays in a dictionary without a copy of their numbers."""

from __future__ import annotations

import hashlib

import numpy as np


def fingerprint(x: np.ndarray) -> tuple[tuple[int, ...], str, bytes]:
    """Return a key that is equal for arrays of the same shape, dtype and bits only, but for collisions of BLAKE2b."""
    return x.shape, x.dtype.str, hashlib.blake2b(x.tobytes(), digest_size=16).digest()
