"""Complex arrays as pairs of real ones: what is said of real numbers, said of both parts.

A derivative is a linear map over the real numbers: that of abs(z)², or of conj(z), is no other. PyTorch's gradient of a
real L by z = x + i y is dL/dx + i dL/dy: its VJP is the adjoint of the JVP under the inner product Re(conj(a) b), which
is that of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def by_parts(f: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """f of real arrays; of complex ones, of the real parts and of the imaginary parts, put together again."""
    if not any(map(np.iscomplexobj, arrays)):
        return f(*arrays)
    real = f(*map(np.real, arrays))
    y = np.empty(np.shape(real), np.complex128)
    y.real, y.imag = real, f(*map(np.imag, arrays))
    return y


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The terms of the inner product: a b, or Re(conj(a) b), entry by entry."""
    if not (np.iscomplexobj(a) or np.iscomplexobj(b)):
        return a * b
    return np.real(a) * np.real(b) + np.imag(a) * np.imag(b)
