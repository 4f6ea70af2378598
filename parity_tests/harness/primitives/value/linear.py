"""Systems with a triangular matrix, and factorizations, by SciPy: the values of JAX's primitives.

On a CPU JAX calls the same routines of SciPy's BLAS and LAPACK.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core


def _routine(library: str, name: str, dtype: np.dtype) -> Callable[..., Any]:
    # Imported at the first use, as `functions.scipy` does.
    return getattr(importlib.import_module(f"scipy.linalg.{library}"), ("z" if dtype.kind == "c" else "d") + name)


def _matrices(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, *x.shape[-2:])


def solved(
    a: np.ndarray,
    b: np.ndarray,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> np.ndarray:
    """triangular_solve: the solution of op(a) y = b, or of y op(a) = b."""
    solve = _routine("blas", "trsm", b.dtype)
    transposed = int(transpose_a) * (2 if conjugate_a else 1)
    flags = {"side": int(not left_side), "lower": int(lower), "diag": int(unit_diagonal), "trans_a": transposed}
    return np.stack([solve(1.0, *pair, **flags) for pair in zip(_matrices(a), _matrices(b), strict=True)]).reshape(
        b.shape
    )


def factored(x: np.ndarray) -> list[np.ndarray]:
    """lu: both factors in one matrix, with whom each row was exchanged in turn, and the order that came of it."""
    factor = _routine("lapack", "getrf", x.dtype)
    factors, pivots = zip(*(factor(a)[:2] for a in _matrices(x)), strict=True)
    batch, rows = x.shape[:-2], x.shape[-2]
    orders = np.tile(np.arange(rows, dtype=np.int32), (len(pivots), 1))
    for order, exchanged in zip(orders, pivots, strict=True):
        for i, j in enumerate(exchanged):
            order[[i, j]] = order[[j, i]]
    exchanges = np.stack(pivots).astype(np.int32)
    return [np.stack(factors).reshape(x.shape), exchanges.reshape(*batch, -1), orders.reshape(*batch, rows)]


def may_solve(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """BLAS has no conjugate that is not a transpose, too."""
    params = eqn.params
    conjugates = params["conjugate_a"] and not params["transpose_a"] and x[0].dtype.kind == "c"
    return _has_matrices(eqn, x) and x[0].dtype == x[1].dtype and not conjugates


def may_factor(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """True if all numbers are finite."""
    # What a routine does with a NaN depends on where it looks for one, which JAX's may do elsewhere.
    return _has_matrices(eqn, x) and not eqn.params and bool(np.isfinite(x[0]).all())


def _has_matrices(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    return all(a.size > 0 and a.dtype in (np.float64, np.complex128) for a in x)
