"""Where a program of another framework is read as one of JAX, and cannot be."""

from __future__ import annotations

import numpy as np

_SHORT = ("float32", "bfloat16", "float16")
_SHORT = ("float32", "bfloat16", "float16")
_PARTS = 8  # of an integer: a number of so few bits is not a rounded one


class CannotConvert(ValueError):
    """Raised where a function of PyTorch or NumPy cannot be made a function of JAX; the message has a remedy."""


def check_constant(x: np.ndarray, dtype: str) -> None:
    """Raise CannotConvert if a constant of a program may be a number that a shorter dtype than float64 has rounded."""
    parts = _PARTS * np.asarray(x, float)[np.isfinite(x)] if dtype in _SHORT else np.zeros(0)
    if (parts != parts.round()).any():
        raise CannotConvert(f"a constant of {dtype} may be a rounded number")
