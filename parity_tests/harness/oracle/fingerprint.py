"""Keys that identify arrays in a dictionary without a copy of their numbers."""

from __future__ import annotations

import hashlib

import numpy as np


def fingerprint(x: np.ndarray | None) -> tuple[tuple[int, ...], str, bytes] | None:
    """Return a key that is equal for arrays of the same shape, dtype and bits only, but for collisions of BLAKE2b.

    Of an optional input that is absent it is None.
    """
    if x is None:
        return None
    return x.shape, x.dtype.str, hashlib.blake2b(x.tobytes(), digest_size=16).digest()
