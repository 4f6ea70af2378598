"""What stands for an array in the key of a dictionary, without a copy of its numbers."""

from __future__ import annotations

import hashlib

import numpy as np


def fingerprint(x: np.ndarray) -> tuple[tuple[int, ...], str, bytes]:
    """The same for arrays of the same shape, dtype and bits, and no others (but for a collision of BLAKE2b)."""
    return x.shape, x.dtype.str, hashlib.blake2b(x.tobytes(), digest_size=16).digest()
