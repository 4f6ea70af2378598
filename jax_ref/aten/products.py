"""Products of vectors and matrices, and distances between rows."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import expanded, same, shaped
from jax_ref.aten._promotion import of_one_dtype, promoted
from jax_ref.aten.reductions import linalg_vector_norm

Array = jax.Array


def mm(self: ArrayLike, mat2: ArrayLike) -> Array:
    """The product of two matrices.

    self (n, k), mat2 (k, m), of one dtype; the result is (n, m).

    >>> aten.mm(jnp.array([[1.0, 2.0]]), jnp.array([[3.0], [4.0]]))
    Array([[11.]], dtype=float32)
    """
    x, y = of_one_dtype("mm", self, mat2)
    shaped("mm", self=(x, "n k"), mat2=(y, "k m"))
    return jnp.einsum("nk,km->nm", x, y)


def bmm(self: ArrayLike, mat2: ArrayLike) -> Array:
    """The products of two batches of matrices.

    self (b, n, k), mat2 (b, k, m), of one dtype; the result is (b, n, m).

    >>> aten.bmm(jnp.ones((2, 1, 3)), jnp.ones((2, 3, 1))).shape
    (2, 1, 1)
    """
    x, y = of_one_dtype("bmm", self, mat2)
    shaped("bmm", self=(x, "b n k"), mat2=(y, "b k m"))
    return jnp.einsum("bnk,bkm->bnm", x, y)


def mv(self: ArrayLike, vec: ArrayLike) -> Array:
    """The product of a matrix and a vector."""
    x, y = of_one_dtype("mv", self, vec)
    shaped("mv", self=(x, "n k"), vec=(y, "k"))
    return jnp.einsum("nk,k->n", x, y)


def dot(self: ArrayLike, tensor: ArrayLike) -> Array:
    """Σ self tensor."""
    x, y = of_one_dtype("dot", self, tensor)
    shaped("dot", self=(x, "k"), tensor=(y, "k"))
    return jnp.einsum("k,k->", x, y)


def vdot(self: ArrayLike, other: ArrayLike) -> Array:
    """Σ conj(self) other."""
    x, y = of_one_dtype("vdot", self, other)
    shaped("vdot", self=(x, "k"), other=(y, "k"))
    return jnp.einsum("k,k->", jnp.conj(x), y)


def matmul(self: ArrayLike, other: ArrayLike) -> Array:
    """The product of vectors, matrices, or batches of them, which broadcast.

    >>> aten.matmul(jnp.ones((5, 1, 3)), jnp.ones((3, 2))).shape
    (5, 1, 2)
    """
    x, y = of_one_dtype("matmul", self, other)
    if not x.ndim or not y.ndim:
        raise ValueError(f"matmul: both arguments need an axis, got {x.shape} and {y.shape}; multiply with mul")
    rows = y.shape[-2] if y.ndim > 1 else y.shape[0]
    same("matmul", "the axis of the sum", (f"self {x.shape}", x.shape[-1]), (f"other {y.shape}", rows))
    return jnp.matmul(x, y)


def linear(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """input weightᵀ + bias.

    input (*, k), weight (n, k), bias (n,); the result is (*, n).

    >>> aten.linear(jnp.array([1.0, 2.0]), jnp.array([[3.0, 4.0]]), jnp.array([0.5]))
    Array([11.5], dtype=float32)
    """
    x, w, *rest = of_one_dtype("linear", input, weight, *([] if bias is None else [bias]))
    if x.ndim:
        same("linear", "the last axis", (f"input {x.shape}", x.shape[-1]), (f"weight {w.shape}", w.shape[-1]))
    y = jnp.matmul(x, w.T)
    return y + expanded("linear", "bias", rest[0], y.shape) if rest else y


def _scaled(self: ArrayLike, product: Array, beta: complex, alpha: complex) -> Array:
    """beta self + alpha product; with beta of 0 nothing of self is left, NaN neither."""
    x, product = of_one_dtype("a sum with a product", self, product)
    scaled = product if alpha == 1 else product * jnp.asarray(alpha, product.dtype)
    if beta == 0:
        return scaled
    x = expanded("a sum with a product", "self", x, product.shape)
    return (x if beta == 1 else x * jnp.asarray(beta, x.dtype)) + scaled


def addmm(self: ArrayLike, mat1: ArrayLike, mat2: ArrayLike, *, beta: complex = 1, alpha: complex = 1) -> Array:
    """beta self + alpha mat1 mat2.

    >>> aten.addmm(jnp.zeros(1), jnp.ones((1, 3)), jnp.ones((3, 1)), alpha=2)
    Array([[6.]], dtype=float32)
    """
    return _scaled(self, mm(mat1, mat2), beta, alpha)


def addmv(self: ArrayLike, mat: ArrayLike, vec: ArrayLike, *, beta: complex = 1, alpha: complex = 1) -> Array:
    """beta self + alpha mat vec."""
    return _scaled(self, mv(mat, vec), beta, alpha)


def baddbmm(self: ArrayLike, batch1: ArrayLike, batch2: ArrayLike, *, beta: complex = 1, alpha: complex = 1) -> Array:
    """beta self + alpha batch1 batch2, for each matrix of a batch."""
    return _scaled(self, bmm(batch1, batch2), beta, alpha)


def addbmm(self: ArrayLike, batch1: ArrayLike, batch2: ArrayLike, *, beta: complex = 1, alpha: complex = 1) -> Array:
    """beta self + alpha Σ batch1 batch2, the sum over the batch."""
    x, y = of_one_dtype("addbmm", batch1, batch2)
    shaped("addbmm", batch1=(x, "b n k"), batch2=(y, "b k m"))
    return _scaled(self, jnp.einsum("bnk,bkm->nm", x, y), beta, alpha)


def addr(self: ArrayLike, vec1: ArrayLike, vec2: ArrayLike, *, beta: complex = 1, alpha: complex = 1) -> Array:
    """beta self + alpha vec1 vec2ᵀ."""
    return _scaled(self, outer(vec1, vec2), beta, alpha)


def outer(self: ArrayLike, vec2: ArrayLike) -> Array:
    """self vec2ᵀ."""
    x, y = jnp.asarray(self), jnp.asarray(vec2)
    shaped("outer", self=(x, "n"), vec2=(y, "m"))
    return jnp.einsum("n,m->nm", x, y)


def kron(self: ArrayLike, other: ArrayLike) -> Array:
    """The Kronecker product."""
    return jnp.kron(jnp.asarray(self), jnp.asarray(other))


def linalg_cross(self: ArrayLike, other: ArrayLike, *, dim: int = -1) -> Array:
    """The cross product along an axis of size 3."""
    x, y = (jnp.moveaxis(each, axis_of(each, dim), 0) for each in promoted(self, other))
    if {x.shape[0], y.shape[0]} - {1, 3}:
        raise ValueError(f"linalg_cross needs 3 entries along dim {dim}, got {x.shape[0]} and {y.shape[0]}")
    parts = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]]
    return jnp.moveaxis(jnp.stack(parts), 0, dim)


def _trilinear(
    i1: ArrayLike,
    i2: ArrayLike,
    i3: ArrayLike,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Array:
    """The sum along axes of the product of three arrays, after each got new axes."""
    spread = []
    for x, axes in ((i1, expand1), (i2, expand2), (i3, expand3)):
        each = jnp.asarray(x)
        for axis in sorted(axes):
            each = jnp.expand_dims(each, axis)
        spread.append(each)
    x, y, z = jnp.broadcast_arrays(*spread)
    return jnp.sum(x * y * z, axis=tuple(sumdim))


def _cdist_forward(x1: ArrayLike, x2: ArrayLike, p: float, compute_mode: int | None = None) -> Array:
    """The p-norms of the differences of each row of x1 and each of x2; the derivative at equal rows is 0."""
    x, y = jnp.asarray(x1), jnp.asarray(x2)
    x, y = jnp.expand_dims(x, -2), jnp.expand_dims(y, -3)
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    return linalg_vector_norm(jnp.broadcast_to(x, shape) - jnp.broadcast_to(y, shape), p, -1)


def _pdist_forward(self: ArrayLike, p: float = 2) -> Array:
    """The p-norms of the differences of rows i < j; the derivative at equal rows is 0."""
    x = jnp.asarray(self)
    first, second = np.triu_indices(x.shape[0], 1)
    return linalg_vector_norm(x[first] - x[second], p, -1)


def linalg_matrix_power(self: ArrayLike, n: int) -> Array:
    """The n-th power of a square matrix; of a negative n that of the inverse."""
    return jnp.linalg.matrix_power(jnp.asarray(self), n)


def _euclidean_dist(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The Euclidean distances between the rows of x1 and those of x2; their derivative is 0 where two are equal."""
    return _cdist_forward(x1, x2, 2.0)


OPERATORS = {
    "_trilinear": _trilinear,
    "_cdist_forward": _cdist_forward,
    "_euclidean_dist": _euclidean_dist,
    "_pdist_forward": _pdist_forward,
}
