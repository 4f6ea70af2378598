"""Rounding errors of spectra: eigenvalues and eigenvectors of symmetric matrices, singular values, Fourier transforms.

A symmetric eigensolver is stable: its result is exact for A + ΔA, |ΔA| <= E_A + D with ‖D‖₂ <= ρ = (γ_n + 2 u) ‖A‖₂
(N. Higham, Accuracy and Stability of Numerical Algorithms, 2002; LAPACK Users' Guide, section 4.7). With A = V Λ Vᵀ and
M = |Vᵀ| E_A |V| + ρ, the eigenvector of A + ΔA nearest to v_j is v_j + Σ k_ij v_i over i ≠ j, where exactly

    (λ_i - λ_j') k_ij = -(Vᵀ ΔA V)_ij - Σ_l (Vᵀ ΔA V)_il k_lj,      λ_j' - λ_j = (Vᵀ ΔA V)_jj + Σ_l (Vᵀ ΔA V)_jl k_lj

so that the magnitudes are bounded by the least solution of

    |k_ij| <= (M_ij + Σ_l M_il |k_lj|) / (|λ_i - λ_j| - |λ_j' - λ_j|)

found by iteration from 0; and |λ_j' - λ_j| <= ‖ΔA‖₂ whatever the gaps (Weyl). A vector is bounded up to its sign: the
bound is right for any result that no sign, and within a repeated eigenvalue no rotation, changes; without a gap it is
infinite.

Singular values and vectors of A, m by n, are those of the symmetric matrix [[0, A], [Aᵀ, 0]], whose eigenvalues are ±σ,
and |m - n| zeros if A is not square, and whose eigenvectors are (u, ±v) / √2. The zeros belong to a space that has no
basis of its own. With any orthonormal basis N of it, the part of the change of v_j that lies in it is N κ_j with

    (0 - λ_j') κ_j = -Nᵀ ΔA v_j - Σ_l Nᵀ ΔA v_l k_lj - Nᵀ ΔA N κ_j

so that with norms in place of magnitudes, the space counts as one more vector (G. Stewart, SIAM Review 15, 1973,
theorem 4.1; G. Stewart, J. Sun, Matrix Perturbation Theory, 1990, chapter V): k_0j = ‖κ_j‖, M_0j = ‖E_A |v_j|‖₂ + ρ on
the side of N, M_00 = ρ, and the magnitudes of this vector are the norms of the rows of N, the square roots of the
diagonal of the projector I - U Uᵀ. The factors with min(m, n) columns, which is what is bounded, are all that it takes.

A general matrix A = V Λ V⁻¹ likewise, with V⁻¹ for Vᵀ and without Weyl's bound. LAPACK's solver scales A by a diagonal
matrix S first (balancing), B = S⁻¹ A S, and is stable for B. Others do not, so that either may be what is perturbed:

    M_ij = (|V⁻¹| E_A |V|)_ij + max(ρ_A ‖(V⁻¹)_i‖ ‖V_j‖, ρ_B ‖(V⁻¹ S)_i‖ ‖(S⁻¹ V)_j‖)

with ρ = (γ_30n + 2 u) times the spectral norm: the QR algorithm takes about three sweeps for each eigenvalue, which
reflect an entry from two sides, with five roundings each. A vector is bounded up to its phase, and the pairs up to
their order, which no solver promises.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from jax.extend.core import primitives as of_jax

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.matrix import fixed_point
from parity_tests.harness.primitives.registry import BY_MODULUS, primitive


def _norm(A: np.ndarray) -> np.ndarray:
    """The spectral norm, with the shape [..., 1, 1]."""
    finite = np.where(np.isfinite(A), A, 0.0)
    norm = np.linalg.norm(finite, 2, axis=(-1, -2), keepdims=True) if A.size else np.zeros((*A.shape[:-2], 1, 1))
    return np.where(np.isfinite(A).all((-1, -2), keepdims=True), norm, np.inf)


def _at_most_norm(E: np.ndarray) -> np.ndarray:
    """A bound of the spectral norm of magnitudes, √(‖E‖₁ ‖E‖∞), with the shape [..., 1, 1].

    For the norm itself an SVD of E would take longer than everything else.
    """
    columns, rows = (E.sum(axis, keepdims=True).max((-1, -2), keepdims=True, initial=0.0) for axis in (-2, -1))
    return np.sqrt(columns) * np.sqrt(rows)


def _perturbed(w: np.ndarray, V: np.ndarray, e_A: np.ndarray, n: int, p: Precision):
    """Bounds of the eigenvalues [..., n] and eigenvectors [..., n, n] of a symmetric matrix, before they are stored."""
    magnitude = np.abs(V)
    own = (p.gamma(n) + 2 * p.u) * np.abs(w).max(-1, initial=0.0)[..., None, None]
    weyl = np.broadcast_to(_at_most_norm(e_A)[..., 0] + own[..., 0], w.shape)
    of_values, K = _coefficients(w, magnitude.mT @ e_A @ magnitude + own, weyl)
    return of_values, _turned(magnitude, K)


def _coefficients(w: np.ndarray, M: np.ndarray, weyl: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of |λ_j' - λ_j|, at most `weyl`, and of the |k_ij|, infinite where there is none."""
    gap = np.abs(w[..., :, None] - w[..., None, :])
    others = 1 - np.eye(w.shape[-1])
    diagonal = np.diagonal(M, axis1=-2, axis2=-1)

    def of_values(K):
        """The bounds of the values, column by column; infinite bounds of vectors do not change them."""
        return np.fmin(weyl, diagonal + np.where(np.isfinite(K), M * K.mT, np.inf).sum(-1))

    def step(K):
        room = gap - of_values(K)[..., None, :]
        passed_on = (M + M @ K) * others
        return np.where(others == 0, 0.0, np.where(room > 0, passed_on / room, np.inf))

    K = fixed_point(step, M, axes=(-2,))
    return of_values(K), K


def _turned(magnitude: np.ndarray, K: np.ndarray, length: np.ndarray | None = None) -> np.ndarray:
    """Bounds of the eigenvectors v_j + Σ k_ij v_i, after their length was changed by a factor within 1 ± length.

    By default v_i are orthonormal: the sum is then √(1 + Σ k_ij²) long.
    """
    if length is None:
        length = np.minimum((K * K).sum(-2, keepdims=True) / 2, 1.0)
    finite = np.isfinite(K).all(-2, keepdims=True)
    turned = np.where(finite, K, 0.0)
    return np.where(finite, magnitude @ turned + (magnitude + magnitude @ turned) * length, np.inf)


@primitive(of_jax.eigh_p)
def eigh(eqn, x, e, y, p, *, lower):
    V, w = y
    below = np.tril(e[0]) + np.tril(e[0], -1).mT if lower else np.triu(e[0]) + np.triu(e[0], 1).mT
    if V.shape[-1] != V.shape[-2]:  # a part of the spectrum
        return [np.full(a.shape, np.inf) for a in y]
    of_values, of_vectors = _perturbed(w, V, below, w.shape[-1], p)
    return [of_vectors + 2 * p.u * np.abs(V), of_values + 2 * p.u * np.abs(w)]


@primitive(of_jax.eig_p, complex=BY_MODULUS)
def eig(eqn, x, e, y, p, *, compute_left_eigenvectors, compute_right_eigenvectors):
    w, V = np.linalg.eig(x[0])
    given = y[0]  # by another solver, perhaps in another order
    order = np.abs(given[..., :, None] - w[..., None, :]).argmin(-1)
    one_to_one = (np.sort(order, -1) == np.arange(w.shape[-1])).all(-1)
    V = np.take_along_axis(V, order[..., None, :], -1)
    try:
        W = np.linalg.inv(V)
    except np.linalg.LinAlgError:  # there is no basis of eigenvectors
        return [np.full(a.shape, np.inf) for a in y]
    own = np.zeros(V.shape)
    for place in np.ndindex(x[0].shape[:-2]):
        A = x[0][place]
        B, (scale, _) = scipy.linalg.matrix_balance(A, permute=False, separate=True)
        for matrix, S in ((A, np.ones(len(A))), (B, scale)):
            left, right = np.linalg.norm(W[place] * S, axis=1), np.linalg.norm(V[place].T / S, axis=1)
            rho = (p.gamma(30 * len(A)) + 2 * p.u) * _norm(matrix)[..., 0, 0]
            own[place] = np.maximum(own[place], rho * np.outer(left, right))
    M = np.abs(W) @ e[0] @ np.abs(V) + own
    of_values, K = _coefficients(given, M, np.full(given.shape, np.inf))
    of_values = np.where(one_to_one[..., None], of_values, np.inf)
    bounds = [of_values + 2 * p.u * np.abs(given)]
    if compute_left_eigenvectors:
        bounds.append(np.full(y[1].shape, np.inf))
    if compute_right_eigenvectors:
        change = K.sum(-2, keepdims=True)
        length = np.where(change < 1, change / (1 - np.minimum(change, 0.5)), np.inf)
        of_vectors = np.where(one_to_one[..., None, None], _turned(np.abs(y[-1]), K, length), np.inf)
        bounds.append(of_vectors + 4 * p.u * np.abs(y[-1]))
    return bounds


@primitive(of_jax.svd_p)
def svd(eqn, x, e, y, p):
    m, n = x[0].shape[-2:]
    if y[0].shape[-1] != min(m, n):
        return [np.full(a.shape, np.inf) for a in y]
    # NumPy refuses a matrix with an infinity or a NaN, whose results are NaN, without a bound.
    finite = np.isfinite(x[0]).all((-1, -2), keepdims=True)
    U, s, Wt = np.linalg.svd(np.where(finite, x[0], 0.0), full_matrices=False)
    k = min(m, n)
    if len(y) > 1:  # the oracle's own choice of signs
        U, Wt = y[1][..., :k], y[2][..., :k, :]
    of_values, of_left, of_right = _perturbed_svd(np.abs(U), s, np.abs(Wt.mT), e[0], p)
    bounds = [of_values + 2 * p.u * s]
    if len(y) > 1:
        full = [np.full(a.shape, np.inf) for a in y[1:]]
        full[0][..., :k], full[1][..., :k, :] = of_left, of_right.mT
        bounds += [b + 2 * p.u * np.abs(a) for b, a in zip(full, y[1:], strict=True)]
    return bounds


def _perturbed_svd(U: np.ndarray, s: np.ndarray, W: np.ndarray, e_A: np.ndarray, p: Precision):
    """Bounds of values, left and right vectors before they are stored; U and W are the magnitudes of thin factors."""
    (m, k), n = U.shape[-2:], W.shape[-2]
    scale = math.sqrt(2)
    own = (p.gamma(m + n) + 2 * p.u) * s.max(-1, initial=0.0)[..., None, None]
    pairs = (U.mT @ e_A @ W) / 2
    M = np.tile(pairs + pairs.mT, (2, 2))
    magnitude = np.concatenate([np.tile(U, 2), np.tile(W, 2)], -2) / scale
    w = np.concatenate([s, -s], -1)
    if m != n:
        moved = np.linalg.norm(e_A @ W if m > n else e_A.mT @ U, axis=-2) / scale
        across = np.tile(moved, 2)[..., None, :]
        M = np.block([[M, across.mT], [across, np.zeros((*s.shape[:-1], 1, 1))]])
        lengths = [_lengths_outside(U), np.zeros((*s.shape[:-1], n, 1))]
        if m < n:
            lengths = [np.zeros((*s.shape[:-1], m, 1)), _lengths_outside(W)]
        magnitude = np.concatenate([magnitude, np.concatenate(lengths, -2)], -1)
        w = np.concatenate([w, np.zeros((*s.shape[:-1], 1))], -1)
    weyl = np.broadcast_to(_at_most_norm(e_A)[..., 0] + own[..., 0], w.shape)
    of_values, K = _coefficients(w, M + own, weyl)
    of_vectors = scale * _turned(magnitude, K)[..., :k]
    return of_values[..., :k], of_vectors[..., :m, :], of_vectors[..., m:, :]


def _lengths_outside(U: np.ndarray) -> np.ndarray:
    """The norm of each row of an orthonormal basis of all that is orthogonal to the columns of U, rounded up."""
    inside = (U * U).sum(-1, keepdims=True)
    return np.sqrt(np.maximum(1 - inside, 0.0) + 4 * U.shape[-1] * np.finfo(U.dtype).eps)


@primitive(of_jax.fft_p, complex=BY_MODULUS)
def fft(eqn, x, e, y, p, *, fft_lengths, fft_type):
    """Every result is a sum of all terms, turned by unit factors.

    A stage of a fast transform that combines r parts rounds as a sum of r products of complex numbers does, √5 u each
    (R. Brent, C. Percival, P. Zimmermann, Math. Comp. 76, 2007), by rounded factors: 4 r roundings of numbers that add
    up to Σ |x| at most.
    """
    axes = tuple(range(-len(fft_lengths), 0))
    count = math.prod(fft_lengths)

    def total(a):
        """Σ over the transformed axes; of a half spectrum each term counts twice."""
        return a.sum(axes, keepdims=True) * (2 if fft_type.name == "IRFFT" else 1)

    stages = sum(sum(_factors(n)) for n in fft_lengths)
    bound = total(e[0]) + (p.gamma(4 * stages) + 2 * p.u) * total(np.abs(x[0]))
    return np.broadcast_to(bound / (count if fft_type.name in ("IFFT", "IRFFT") else 1), y.shape) + p.tiny


def _factors(n: int) -> list[int]:
    found, divisor = [], 2
    while n > 1:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return found or [1]
