"""Complex arrays as pairs of real ones, so that what holds for real numbers is applied to both parts.

A derivative is a linear map over the real numbers, and that of abs(z)², or of conj(z), is no exception. PyTorch's
gradient of a real L by z = x + i y is dL/dx + i dL/dy: its VJP is the adjoint of the JVP under the inner product
Re(conj(a) b), which is that of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def by_parts(f: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Apply f to real arrays; for complex ones, apply f to the real and the imaginary parts, and join the results."""
    if not any(map(np.iscomplexobj, arrays)):
        return f(*arrays)
    real = f(*map(np.real, arrays))
    y = np.empty(np.shape(real), np.complex128)
    y.real, y.imag = real, f(*map(np.imag, arrays))
    return y


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the terms of the inner product, entry by entry: a b, or Re(conj(a) b) if either is complex."""
    if not (np.iscomplexobj(a) or np.iscomplexobj(b)):
        return a * b
    return np.real(a) * np.real(b) + np.imag(a) * np.imag(b)
