"""The floating-point formats that a candidate is judged in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Precision:
    """One format: how it stores numbers and how sums of products are accumulated in it.

    Attributes:
        name: the dtype's name in JAX, NumPy and PyTorch alike.
        storage: the NumPy dtype.
        u: unit roundoff of a stored result (half the spacing at 1).
        u_acc: unit roundoff of the accumulator: float32's for the 16-bit formats.
        tiny: what one operation may lose to underflow: the smallest normal number, since XLA and CUDA may flush
            subnormals to zero; for float16, which both compute in float32, its smallest subnormal.
        smallest: the smallest positive number, a subnormal.
        largest: the largest finite number.
    """

    name: str
    storage: np.dtype
    u: float
    u_acc: float
    tiny: float
    smallest: float
    largest: float

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """x rounded to this format, as float64."""
        return np.asarray(x, np.float64).astype(self.storage).astype(np.float64)

    def gamma(self, K: int) -> float:
        """γ_K: how far K roundings of the accumulator may add up, relatively; see `rounding`."""
        return min(K, 4 * math.sqrt(K)) * self.u_acc


def _precision(name: str, storage: type, u_acc: float | None = None, flushes: bool = True) -> Precision:
    info = ml_dtypes.finfo(storage)
    u = float(info.eps) / 2
    tiny = float(info.smallest_normal if flushes else info.smallest_subnormal)
    return Precision(
        name, np.dtype(storage), u, u if u_acc is None else u_acc, tiny, float(info.smallest_subnormal), float(info.max)
    )


_U32 = float(np.finfo(np.float32).eps) / 2

PRECISIONS: dict[str, Precision] = {
    p.name: p
    for p in (
        _precision("float64", np.float64),
        _precision("float32", np.float32),
        _precision("bfloat16", ml_dtypes.bfloat16, u_acc=_U32),
        _precision("float16", np.float16, u_acc=_U32, flushes=False),
    )
}
FLOAT64 = PRECISIONS["float64"]
