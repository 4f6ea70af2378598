"""Constants of programs that compute in less than float64, and may have rounded them."""

from __future__ import annotations

import functools
import math

import numpy as np

from parity_tests.conversion.cannot_convert import CannotConvert

_SHORT = ("float32", "bfloat16", "float16")
_FEW_BITS = 2**11  # of float32's 24: what is rounded has more, but for one number in 4000
_PARTS = 8  # of an integer, in 16 bits
_DIGITS = 4  # of a decimal, between two of which float32 has thousands of numbers


def meant(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return the numbers that constants of a dtype stand for: themselves, or decimals that float32 has rounded.

    Raises:
        CannotConvert: one may be rounded, and from which number cannot be told.
    """
    if dtype not in _SHORT:
        return x
    values = [_meant(float(value), dtype) for value in x.ravel()]
    return np.array(values, float).reshape(x.shape)


@functools.lru_cache(maxsize=4096)
def _meant(x: float, dtype: str) -> float:
    if not math.isfinite(x) or _PARTS * x == round(_PARTS * x) or abs(math.frexp(x)[0]) == 0.5:  # a power of two
        return x
    decimal = float(f"{x:.{_DIGITS - 1}e}")
    if dtype == "float32" and np.float32(decimal) == x:
        return decimal
    if dtype == "float32" and math.frexp(x)[0] * _FEW_BITS % 1 == 0:
        return x
    raise CannotConvert(f"a constant of {dtype} may be a rounded number")
