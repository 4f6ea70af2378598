"""Products of matrices, and linear algebra."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch
from jax.scipy import linalg

from benchmarks.operators._case import Defect, case

KRON = (
    Defect("24. kron: an input that is edited in place", ("a_bar", "b_bar"), ("in_place",)),
    Defect("25. kron of a transposed matrix", ("forward",), ("layouts",), at=("inputs transposed",)),
)


def _independent(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Columns that are far from dependent: orthogonal ones, of lengths from 1/2 to 2."""
    return np.linalg.qr(rng.standard_normal(shape))[0] * rng.uniform(0.5, 2.0, shape[-1])


CASES = (
    case(
        "baddbmm",
        lambda c, a, b: c + jnp.matmul(a, b),
        torch.baddbmm,
        "(b,n,m),(b,n,k),(b,k,m)->(b,n,m)",
    ),
    case(
        "cholesky_solve",
        lambda b, L: linalg.cho_solve((L, True), b),
        torch.cholesky_solve,
        "(n,m),(n,n)->(n,m)",
        domains={"L": "lower"},
    ),
    case("kron", lambda a, b: jnp.kron(a, b), torch.kron, "(n,m),(k,l)->(i,j)", *KRON, sizes="i = n*k, j = m*l"),
    case(
        "linalg.diagonal",
        lambda a: jnp.linalg.diagonal(a),
        torch.linalg.diagonal,
        "(b,n,m)->(b,k)",
        sizes="k = min(n, m)",
    ),
    case(
        "linalg.inv",
        lambda a: jnp.linalg.inv(a),
        torch.linalg.inv,
        "(n,n)->(n,n)",
        domains={"a": "well-conditioned"},
    ),
    case("linalg.lu", lambda a: linalg.lu(a), lambda a: tuple(torch.linalg.lu(a)), "(n,n)->(n,n),(n,n),(n,n)"),
    case(
        "linalg.multi_dot",
        lambda a, b, c: jnp.linalg.multi_dot([a, b, c]),
        lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
        "(n,m),(m,k),(k,l)->(n,l)",
    ),
    case(
        "linalg.pinv.singular",
        # Of a matrix that is not of full rank it has no derivative, but along the matrices of the same rank it has.
        lambda a, b: jnp.linalg.pinv(b).T @ jnp.linalg.pinv(a),
        lambda a, b: torch.linalg.pinv(a @ b.T),
        "(5,2),(4,2)->(4,5)",
        domains={"a": _independent, "b": _independent},
    ),
    case("linalg.svdvals", lambda a: jnp.linalg.svdvals(a), torch.linalg.svdvals, "(n,m)->(k)", sizes="k = min(n, m)"),
    case("linalg.vecdot", lambda x, y: jnp.linalg.vecdot(x, y), torch.linalg.vecdot, "(n,m),(n|1,m)->(n)"),
    case("matmul", lambda a, b: jnp.matmul(a, b), torch.matmul, "(b,n,k),(k,m)->(b,n,m)"),
    case("outer", lambda x, y: jnp.outer(x, y), torch.outer, "(n),(m)->(n,m)"),
    case("pinverse", lambda a: jnp.linalg.pinv(a), torch.pinverse, "(n,m)->(m,n)"),
    case(
        "tensordot",
        lambda a, b: jnp.tensordot(a, b, ([1, 0], [0, 1])),
        lambda a, b: torch.tensordot(a, b, ([1, 0], [0, 1])),  # type: ignore[arg-type]
        "(n,m,k),(m,n,l)->(k,l)",
    ),
    case("trace", lambda a: jnp.trace(a), torch.trace, "(n,m)->()"),
)
