"""Determinants, inverses, solutions of linear systems, factorizations, functions of matrices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._checks import square
from jax_ref.aten._promotion import promoted

Array = jax.Array


def _adjoint(x: Array) -> Array:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def _info(A: Array) -> Array:
    """LAPACK's report of success for each matrix."""
    return jnp.zeros(A.shape[:-2], np.int32)


def _batched(A: ArrayLike, B: ArrayLike) -> tuple[Array, Array]:
    """Two batches of matrices with the same batch axes."""
    x, y = jnp.asarray(A), jnp.asarray(B)
    batch = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return jnp.broadcast_to(x, batch + x.shape[-2:]), jnp.broadcast_to(y, batch + y.shape[-2:])


def linalg_inv_ex(A: ArrayLike, *, check_errors: bool = False) -> tuple[Array, Array]:
    """The inverse, and LAPACK's report."""
    x = jnp.asarray(A)
    return jnp.linalg.inv(x), _info(x)


def inverse(self: ArrayLike) -> Array:
    """The inverse."""
    return jnp.linalg.inv(jnp.asarray(self))


def _linalg_solve_ex(
    A: ArrayLike, B: ArrayLike, *, left: bool = True, check_errors: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The X with A X = B, or X A = B; the LU factorization and its pivots; LAPACK's report."""
    x, y = jnp.asarray(A), jnp.asarray(B)
    is_vector = y.ndim == 1 or (y.ndim == x.ndim - 1 and y.shape == x.shape[:-1])
    y = jnp.expand_dims(y, -1) if is_vector else y
    x, y = _batched(x, y)
    found = jnp.linalg.solve(x, y) if left else _transposed(jnp.linalg.solve(_transposed(x), _transposed(y)))
    factors, pivots, _ = lax.linalg.lu(lax.stop_gradient(x))
    return jnp.squeeze(found, -1) if is_vector else found, factors, pivots + 1, _info(x)


def linalg_lstsq(
    self: ArrayLike, b: ArrayLike, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """The shortest x with the smallest |self x - b|, the squares of these, the rank and the singular values.

    Singular values up to rcond σ₁ are taken for 0, but with the driver "gels", which is for matrices with full rank.
    The squares are empty unless self has more rows than columns and the driver is another than "gelsy", the default;
    PyTorch leaves them empty also if a matrix has not full rank. The rank and the singular values are those of every
    driver, though PyTorch leaves them empty for some.
    """
    A = jnp.asarray(self)
    B = jnp.asarray(b).astype(A.dtype)
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    A, B = _batched(A, B[..., None] if is_vector else B)
    rows, columns = A.shape[-2:]
    eps = float(jnp.finfo(A.dtype).eps)
    limit = eps * max(rows, columns) if rcond is None else rcond if rcond >= 0 else eps
    x = _by_qr(A, B) if driver == "gels" else jnp.matmul(linalg_pinv(A, rtol=limit), B)
    squares = jnp.zeros(0, jnp.abs(B).dtype)
    if rows > columns and driver not in (None, "gelsy"):
        off = jnp.matmul(A, x) - B
        squares = (off.real**2 + off.imag**2).sum(-2)
    values = jnp.linalg.svd(lax.stop_gradient(A), compute_uv=False)
    rank = (values > limit * values.max(-1, keepdims=True, initial=0)).sum(-1)
    return (x[..., 0] if is_vector else x), squares, rank, values


def _by_qr(A: Array, B: Array) -> Array:
    """The shortest x with the smallest |A x - B|, if A has full rank."""
    if A.shape[-2] >= A.shape[-1]:
        Q, R = jnp.linalg.qr(A)
        return jax.scipy.linalg.solve_triangular(R, jnp.matmul(_adjoint(Q), B))
    Q, R = jnp.linalg.qr(_adjoint(A))
    return jnp.matmul(Q, jax.scipy.linalg.solve_triangular(R, B, trans=2))


def _transposed(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


def linalg_solve(A: ArrayLike, B: ArrayLike, *, left: bool = True) -> Array:
    """The X with A X = B, or X A = B."""
    square("linalg_solve", "A", A)
    return _linalg_solve_ex(A, B, left=left)[0]


def linalg_solve_triangular(
    self: ArrayLike, B: ArrayLike, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """The X with self X = B, or X self = B, of a triangular matrix; the other triangle is not read."""
    x, y = _batched(self, B)
    return lax.linalg.triangular_solve(x, y, left_side=left, lower=not upper, unit_diagonal=unitriangular)


def triangular_solve(
    self: ArrayLike, A: ArrayLike, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    """The X with A X = self, or Aᵀ X = self, of a triangular matrix, and A."""
    x, y = _batched(A, self)
    found = lax.linalg.triangular_solve(
        x, y, left_side=True, lower=not upper, transpose_a=transpose, unit_diagonal=unitriangular
    )
    return found, x


def _linalg_det(A: ArrayLike) -> tuple[Array, Array, Array]:
    """The determinant, and the LU factorization with its pivots."""
    x = jnp.asarray(A)
    factors, pivots, _ = lax.linalg.lu(lax.stop_gradient(x))
    return jnp.linalg.det(x), factors, pivots + 1


def _linalg_slogdet(A: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """The sign of the determinant, the logarithm of its modulus, and the LU factorization with its pivots."""
    x = jnp.asarray(A)
    sign, logarithm = jnp.linalg.slogdet(x)
    factors, pivots, _ = lax.linalg.lu(lax.stop_gradient(x))
    return sign, logarithm, factors, pivots + 1


def linalg_cholesky_ex(self: ArrayLike, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, Array]:
    """The triangular L with L L* = self, of which one triangle is read, or its adjoint; and LAPACK's report."""
    x = jnp.asarray(self)
    L = lax.linalg.cholesky(x if not upper else _adjoint(x), symmetrize_input=True)
    return _adjoint(L) if upper else L, _info(x)


def cholesky(self: ArrayLike, upper: bool = False) -> Array:
    """The triangular L with L L* = self, or its adjoint."""
    square("cholesky", "self", self)
    return linalg_cholesky_ex(self, upper=upper)[0]


def cholesky_solve(self: ArrayLike, input2: ArrayLike, upper: bool = False) -> Array:
    """The X with L L* X = self."""
    L, y = _batched(input2, self)
    L = jnp.triu(L) if upper else jnp.tril(L)
    L = _adjoint(L) if upper else L
    z = lax.linalg.triangular_solve(L, y, left_side=True, lower=True)
    return lax.linalg.triangular_solve(L, z, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


def cholesky_inverse(self: ArrayLike, upper: bool = False) -> Array:
    """The inverse of L L*."""
    L = jnp.asarray(self)
    one = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype), L.shape)
    return cholesky_solve(one, L, upper)


def linalg_lu_factor_ex(A: ArrayLike, *, pivot: bool = True, check_errors: bool = False) -> tuple[Array, Array, Array]:
    """L and U in one matrix, the pivots from 1 on, LAPACK's report; rows are exchanged, unless pivot is False."""
    x = jnp.asarray(A)
    if not pivot:
        factors = _lu_without_pivots(x)
        n = min(x.shape[-2:])
        return factors, jnp.broadcast_to(jnp.arange(1, n + 1, dtype=np.int32), (*x.shape[:-2], n)), _info(x)
    factors, pivots, _ = lax.linalg.lu(x)
    return factors, pivots + 1, _info(x)


def _lu_without_pivots(A: Array) -> Array:
    for k in range(min(A.shape[-2:])):
        column = A[..., k + 1 :, k] / A[..., k, k][..., None]
        A = A.at[..., k + 1 :, k].set(column)
        A = A.at[..., k + 1 :, k + 1 :].add(-column[..., :, None] * A[..., k, None, k + 1 :])
    return A


def _permutation(pivots: Array, n: int) -> Array:
    """The matrix P of LAPACK's exchanges of rows, from 1 on: A = P L U."""
    rows = lax.linalg.lu_pivots_to_permutation(jnp.asarray(pivots) - 1, n)
    return jnp.swapaxes(jax.nn.one_hot(rows, n), -1, -2)


def lu_unpack(
    LU_data: ArrayLike, LU_pivots: ArrayLike, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Array, Array, Array]:
    """The permutation, the lower factor with ones on its diagonal, and the upper one."""
    x = jnp.asarray(LU_data)
    m, n = x.shape[-2:]
    k = min(m, n)
    nothing = jnp.zeros((0,), x.dtype)
    P = _permutation(jnp.asarray(LU_pivots), m).astype(x.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return P, nothing, nothing
    L = jnp.tril(x[..., :, :k], -1) + jnp.eye(m, k, dtype=x.dtype)
    return P, L, jnp.triu(x[..., :k, :])


def linalg_lu(A: ArrayLike, *, pivot: bool = True) -> tuple[Array, Array, Array]:
    """The permutation, the lower factor and the upper one."""
    x = jnp.asarray(A)
    factors, pivots, _ = linalg_lu_factor_ex(x, pivot=pivot)
    P, L, U = lu_unpack(factors, pivots)
    return (P if pivot else jnp.zeros((0,), x.dtype)), L, U


def linalg_lu_solve(
    LU: ArrayLike, pivots: ArrayLike, B: ArrayLike, *, left: bool = True, adjoint: bool = False
) -> Array:
    """The X with A X = B or X A = B, or the same with the adjoint of A, from A's factors."""
    if not left:  # X A = B is A* X* = B*
        return _adjoint(linalg_lu_solve(LU, pivots, _adjoint(jnp.asarray(B)), adjoint=not adjoint))
    factors, y = _batched(LU, B)
    exchanges = jnp.broadcast_to(jnp.asarray(pivots), (*factors.shape[:-2], jnp.shape(pivots)[-1]))
    P, L, U = lu_unpack(factors, exchanges)
    if adjoint:
        z = lax.linalg.triangular_solve(U, y, left_side=True, lower=False, transpose_a=True, conjugate_a=True)
        w = lax.linalg.triangular_solve(L, z, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
        return jnp.matmul(P, w)
    z = lax.linalg.triangular_solve(L, jnp.matmul(_transposed(P), y), left_side=True, lower=True)
    return lax.linalg.triangular_solve(U, z, left_side=True, lower=False)


def linalg_qr(A: ArrayLike, mode: str = "reduced") -> tuple[Array, Array]:
    """The orthogonal and the upper triangular factor."""
    x = jnp.asarray(A)
    if mode == "r":
        return jnp.zeros((0,), x.dtype), jnp.linalg.qr(x, mode="r")
    Q, R = jnp.linalg.qr(x, mode=mode)
    return Q, R


def _linalg_eigh(A: ArrayLike, UPLO: str = "L", compute_v: bool = True) -> tuple[Array, Array]:
    """The eigenvalues in ascending order, and the eigenvectors, whose phases are arbitrary; of one triangle."""
    x = _hermitian(jnp.asarray(A), UPLO)
    values, vectors = jnp.linalg.eigh(x, symmetrize_input=False)
    return values, vectors if compute_v else jnp.zeros((0,), x.dtype)


def _hermitian(x: Array, UPLO: str = "L") -> Array:
    """The Hermitian matrix with this triangle, the lower one ("L") or the upper one, and a real diagonal."""
    triangle = jnp.tril(x, -1) if UPLO.upper() == "L" else jnp.triu(x, 1)
    diagonal = jnp.diagonal(x, axis1=-2, axis2=-1).real.astype(x.dtype)
    return triangle + _adjoint(triangle) + jnp.expand_dims(diagonal, -1) * jnp.eye(x.shape[-1], dtype=x.dtype)


def linalg_eig(self: ArrayLike) -> tuple[Array, Array]:
    """The eigenvalues and the eigenvectors, whose order and phases are arbitrary."""
    x = jnp.asarray(self)
    values, vectors = lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
    return values, vectors


def linalg_eigvals(self: ArrayLike) -> Array:
    """The eigenvalues, whose order is arbitrary."""
    return jnp.linalg.eigvals(jnp.asarray(self))


def _linalg_svd(
    A: ArrayLike, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Array, Array, Array]:
    """U, the singular values, and V*; the phases of the vectors are arbitrary."""
    x = jnp.asarray(A)
    if not compute_uv:
        nothing = jnp.zeros((0,), x.dtype)
        return nothing, jnp.linalg.svd(x, compute_uv=False), nothing
    U, S, Vh = jnp.linalg.svd(x, full_matrices=full_matrices)
    return U, S, Vh


def linalg_matrix_exp(self: ArrayLike) -> Array:
    """Σ selfᵏ / k!"""
    x = jnp.asarray(self)
    one = jax.scipy.linalg.expm
    for _ in range(x.ndim - 2):
        one = jax.vmap(one)
    return one(x) if x.size else x


def linalg_pinv(
    self: ArrayLike, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Array:
    """The pseudoinverse: singular values up to max(atol, rtol σ₁) are taken for 0, in its derivative, too.

    `rcond` is another name of `rtol`. Of a Hermitian matrix the lower triangle alone is read.
    """
    x = _hermitian(jnp.asarray(self)) if hermitian else jnp.asarray(self)
    rtol = rcond if rtol is None else rtol
    if not x.size:
        return _transposed(x)
    # Relative to the largest singular value, of which `of_largest` is a multiple; either limit may be an array
    precision = jnp.finfo(x.real.dtype).eps * max(x.shape[-2:]) if atol is None else 0.0
    limits = 0.0 if atol is None else atol, precision if rtol is None else rtol
    absolute, of_largest = (jnp.asarray(each, x.real.dtype) for each in limits)
    return _pinv(x, lax.stop_gradient(absolute), lax.stop_gradient(of_largest))


@jax.custom_jvp
def _pinv(x: Array, absolute: Array, of_largest: Array) -> Array:
    U, S, Vh = jnp.linalg.svd(x, full_matrices=False)
    limit = jnp.maximum(absolute[..., None], of_largest[..., None] * S[..., :1])
    kept = limit < S
    inverse_of = jnp.where(kept, 1 / jnp.where(kept, S, jnp.ones_like(S)), jnp.zeros_like(S)).astype(x.dtype)
    return jnp.matmul(_adjoint(Vh) * jnp.expand_dims(inverse_of, -2), _adjoint(U))


@_pinv.defjvp
def _pinv_jvp(primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """dP = -P dA P + P P* dA* (1 - A P) + (1 - P A) dA* P* P, where the rank stays (Golub and Pereyra, 1973)."""
    A, dA = primals[0], tangents[0]
    P = _pinv(*primals)
    dA_adjoint, P_adjoint = _adjoint(dA), _adjoint(P)
    left = jnp.eye(A.shape[-2], dtype=A.dtype) - A @ P
    right = jnp.eye(A.shape[-1], dtype=A.dtype) - P @ A
    return P, P @ P_adjoint @ dA_adjoint @ left + right @ dA_adjoint @ P_adjoint @ P - P @ dA @ P


def linalg_householder_product(input: ArrayLike, tau: ArrayLike) -> Array:
    """The first columns of H₁ H₂ ... Hₖ with Hᵢ = 1 - τᵢ vᵢ vᵢ*, of vectors below the diagonal."""
    x, t = promoted(input, input)[0], jnp.asarray(tau)
    m, n = x.shape[-2:]
    Q = jnp.broadcast_to(jnp.eye(m, n, dtype=x.dtype), x.shape)
    for k in reversed(range(t.shape[-1])):
        v = jnp.concatenate([jnp.zeros_like(x[..., :k, k]), jnp.ones_like(x[..., :1, k]), x[..., k + 1 :, k]], axis=-1)
        along = jnp.einsum("...m,...mn->...n", jnp.conj(v), Q)
        Q = Q - jnp.expand_dims(t[..., k], (-1, -2)) * v[..., :, None] * along[..., None, :]
    return Q


def ormqr(self: ArrayLike, input2: ArrayLike, input3: ArrayLike, left: bool = True, transpose: bool = False) -> Array:
    """The product of input3 with the orthogonal matrix of Householder vectors self and factors input2."""
    y = jnp.asarray(input3)
    m = y.shape[-2] if left else y.shape[-1]
    x = jnp.asarray(self)[..., :m]
    square = jnp.concatenate([x, jnp.zeros((*x.shape[:-1], m - x.shape[-1]), x.dtype)], axis=-1)
    Q = linalg_householder_product(square, input2)
    Q = _adjoint(Q) if transpose else Q
    return jnp.matmul(Q, y) if left else jnp.matmul(y, Q)


OPERATORS = {
    "_linalg_solve_ex": _linalg_solve_ex,
    "_linalg_det": _linalg_det,
    "_linalg_slogdet": _linalg_slogdet,
    "_linalg_eigh": _linalg_eigh,
    "_linalg_svd": _linalg_svd,
}
