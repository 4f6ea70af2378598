"""Rounding errors of factorizations and solutions of linear systems: backward errors, carried to the result.

Each algorithm is known to give the exact answer for a matrix a little different from the given one (N. Higham, Accuracy
and Stability of Numerical Algorithms, 2002). With γ as in `rounding` (for these algorithms: N. Higham, T. Mary, SIAM J.
Sci. Comput. 41, 2019, section 3), and E_A the error that A itself comes with:

    (T + ΔT) X = B        |ΔT| <= E_T + (γ_n + 2 u) |T|         triangular, theorem 8.5
    (A + ΔA) X = B        |ΔA| <= E_A + (γ_3n + 2 u) |L| |U|    Gaussian elimination, theorem 9.4
    L U = A + ΔA          |ΔA| <= E_A + (γ_n + 2 u) |L| |U|     theorem 9.3
    L Lᵀ = A + ΔA         |ΔA| <= E_A + (γ_n+1 + 2 u) |L| |Lᵀ|  Cholesky, theorem 10.3

The 2 u are the roundings of what is stored. Of complex numbers every γ_n is √2 γ_2n, since each part of a product of n
terms is a real sum of 2 n products, and a quotient has 11 roundings (see `bound.complex`). What such a change of A
does to the result is then exact algebra, not a first-order estimate: from A δ = ΔB - ΔA (X + δ), with
G = |A⁻¹| |ΔA|,

    E_X = (I - G)⁻¹ |A⁻¹| (E_B + |ΔA| |X|)

and for the factorizations from (I + F) (I + Fᵀ) = I + L⁻¹ ΔA L⁻ᵀ, or (I + X) (I + Y) = I + L⁻¹ ΔA U⁻¹, solved for the
magnitudes by iteration from 0. Where these have no solution, the matrix may be singular to rounding: no bound.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import scipy.linalg
from jax.extend.core import primitives as of_jax

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.bound.complex import QUOTIENT
from parity_tests.harness.primitives.field import factorizations, matrices
from parity_tests.harness.primitives.field.matrices import in_a_run
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value import linear
from parity_tests.harness.primitives.value.functions import where

_ITERATIONS = 100  # far fewer do where the bound is of any use


def _roundings(A: np.ndarray, n: int, p: Precision) -> np.ndarray | float:
    """γ_n + 2 u, for a matrix of real or complex numbers."""
    if np.iscomplexobj(A):
        return math.sqrt(2) * p.gamma(2 * n) + (QUOTIENT + 2) * p.u
    return p.gamma(n) + 2 * p.u


def _magnitude_of_inverse(A: np.ndarray) -> np.ndarray:
    try:
        return np.abs(np.linalg.inv(A))
    except np.linalg.LinAlgError:
        return np.full(A.shape, np.inf)


def _carried(A: np.ndarray, change: np.ndarray, X: np.ndarray, e_B: np.ndarray, p: Precision) -> np.ndarray:
    """E_X, for |ΔA| <= change."""
    n = A.shape[-1]
    inverse = _magnitude_of_inverse(A)
    # I - G has a nonnegative inverse if and only if the spectral radius of G is below 1: then it is the sum of powers.
    try:
        series = np.linalg.inv(np.eye(n) - inverse @ change)
    except np.linalg.LinAlgError:
        return np.full(X.shape, np.inf)
    # I + G + G² + ... has a diagonal of 1 at least; where G is enormous the inverse is negative, and may be next to 0.
    diagonal = np.diagonal(series, axis1=-2, axis2=-1)[..., None]
    converges = np.all((series >= -1e-9) & (diagonal > 0.5), axis=(-1, -2), keepdims=True)
    return np.where(converges, series @ (inverse @ (e_B + change @ np.abs(X) + n * p.tiny)), np.inf)


@primitive(
    of_jax.triangular_solve_p,
    kinds=Kind.SMOOTH,
    complex=BY_MODULUS,
    value=where(linear.may_solve, linear.solved),
    field=factorizations.solved,
    run=in_a_run(matrices.solved),
)
def triangular_solve(eqn, x, e, y, p, *, left_side, lower, transpose_a, unit_diagonal):
    T, e_T = (np.tril(a) if lower else np.triu(a) for a in (x[0], e[0]))
    if unit_diagonal:
        off = 1 - np.eye(T.shape[-1])
        T, e_T = T * off + np.eye(T.shape[-1]), e_T * off
    if transpose_a == left_side:  # a transposed system, or one from the right; as both, neither
        T, e_T = T.mT, e_T.mT
    X, e_B = (y, e[1]) if left_side else (y.mT, e[1].mT)
    change = e_T + _roundings(T, T.shape[-1], p) * (np.abs(T) + e_T)
    bound = _carried(T, change, X, e_B, p)
    return bound if left_side else bound.mT


def linear_solve(A: np.ndarray, e_A: np.ndarray, X: np.ndarray, e_B: np.ndarray, p: Precision) -> np.ndarray:
    """The bound of the columns X that solve A X = B, by elimination with partial pivoting or as stably."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a singular matrix, for which there is no bound
        L, U = scipy.linalg.lu(A, permute_l=True)[-2:] if A.size else (A, A)
    own = _roundings(A, 3 * A.shape[-1], p) * (np.abs(L) @ np.abs(U))
    return _carried(A, e_A + own, X, e_B, p)


@primitive(of_jax.cholesky_p, kinds=Kind.ROOT | Kind.SMOOTH, field=factorizations.rooted, run=in_a_run(matrices.rooted))
def cholesky(eqn, x, e, y, p):
    below = np.tril(np.ones(y.shape))
    L, e_A = y * below, np.tril(e[0]) + np.tril(e[0], -1).mT  # only what is below the diagonal is read
    magnitude, inverse = np.abs(L), _magnitude_of_inverse(L)
    own = _roundings(L, L.shape[-1] + 1, p) * (magnitude @ magnitude.mT)
    M = inverse @ (e_A + own) @ inverse.mT
    half = np.tril(np.ones(y.shape), -1) + np.eye(y.shape[-1]) / 2
    F = fixed_point(lambda F: half * (M + F @ F.mT), M)
    # Above the diagonal the primitive's result is left undefined.
    return np.where(below > 0, magnitude @ F, np.inf)


@primitive(
    of_jax.lu_p,
    complex=BY_MODULUS,
    value=where(linear.may_factor, linear.factored),
    field=factorizations.pivoted,
    run=in_a_run(matrices.pivoted),
)
def lu(eqn, x, e, y, p):
    packed, pivots, permutation = y
    # The pivots are the oracle's choice, not a result: determinants and solutions are the same by any.
    certain = [np.zeros(pivots.shape), np.zeros(permutation.shape)]
    if packed.shape[-1] != packed.shape[-2]:
        return [np.full(packed.shape, np.inf), *certain]
    eye = np.eye(packed.shape[-1])
    L, U = np.tril(packed, -1) + eye, np.triu(packed)
    e_A = np.take_along_axis(e[0], permutation[..., None].astype(np.int64), axis=-2)
    own = _roundings(packed, packed.shape[-1], p) * (np.abs(L) @ np.abs(U))
    G = _magnitude_of_inverse(L) @ (e_A + own) @ _magnitude_of_inverse(U)
    K = fixed_point(lambda K: G + np.tril(K, -1) @ np.triu(K), G)
    return [np.tril(np.abs(L) @ np.tril(K, -1), -1) + np.triu(np.triu(K) @ np.abs(U)), *certain]


def fixed_point(step, like: np.ndarray, axes: tuple[int, ...] = (-1, -2)) -> np.ndarray:
    """The least solution of F = step(F) >= 0 for a monotone step; infinite where it does not settle, along the axes."""
    F = np.zeros_like(like)
    for _ in range(_ITERATIONS):
        before, F = F, step(F)
        if np.array_equal(before, F):
            break
    accept_one_sided_derivatives = np.all(F - before <= 1e-6 * F, axis=axes, keepdims=True)
    return np.where(accept_one_sided_derivatives, F, np.inf)
