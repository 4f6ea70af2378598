"""Factorizations and linear systems: cholesky, triangular and definite systems, the determinant's logarithm."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# cholesky


def _phi(a):
    """The lower triangle, half of the diagonal."""
    return a.tril() - a.diagonal(dim1=-2, dim2=-1).diag_embed() / 2


def _cholesky_with(phi=_phi, transposed=True, symmetric=True):
    def backward(a, l_bar):
        L = torch.linalg.cholesky(a)
        inverse = torch.linalg.solve_triangular(L, torch.eye(len(L), dtype=L.dtype), upper=False)
        S = phi(L.mT @ l_bar)
        g = (inverse.mT if transposed else inverse) @ S @ inverse
        return (g + g.mT) / 2 if symmetric else g + g.mT

    return function(torch.linalg.cholesky, backward)


cholesky = Operator(
    OpSpec("cholesky", lambda a: jnp.linalg.cholesky(a), "(n,n)->(n,n)", domains={"a": "definite"}),
    torch.linalg.cholesky,
    {
        "diagonal_not_halved": Mistake(_cholesky_with(torch.tril), "vjp", passes=("forward",)),
        "not_transposed": Mistake(_cholesky_with(transposed=False), "vjp", passes=("forward",)),
        "symmetrized_without_halving": Mistake(_cholesky_with(symmetric=False), "vjp", passes=("forward",)),
        "upper_factor": Mistake(lambda a: torch.linalg.cholesky(a).mT.contiguous(), "forward"),
    },
)

# L x = b


def _triangular(L, b):
    return torch.linalg.solve_triangular(L, b, upper=False)


def _triangular_with(sign=-1.0, transposed=True):
    def backward(L, b, x_bar):
        x, system = _triangular(L, b), L.mT if transposed else L
        b_bar = torch.linalg.solve_triangular(system, x_bar, upper=transposed)
        return sign * (b_bar @ x.mT).tril(), b_bar

    return function(_triangular, backward)


solve_triangular = Operator(
    OpSpec(
        "solve_triangular",
        lambda L, b: jax.scipy.linalg.solve_triangular(L, b, lower=True),
        "(n,n),(n,k)->(n,k)",
        domains={"L": "lower"},
    ),
    _triangular,
    {
        "sign": Mistake(_triangular_with(sign=1.0), "vjp", passes=("forward",)),
        "not_transposed": Mistake(_triangular_with(transposed=False), "vjp", passes=("forward",)),
        "unit_diagonal": Mistake(
            lambda L, b: torch.linalg.solve_triangular(L, b, upper=False, unitriangular=True), "forward"
        ),
    },
)

# A x = b, A definite


def _solve(a, b):
    return torch.cholesky_solve(b, torch.linalg.cholesky(a))


def _solve_with(symmetric):
    def backward(a, b, x_bar):
        b_bar = _solve(a, x_bar)
        a_bar = -b_bar @ _solve(a, b).mT
        return symmetric(a_bar), b_bar

    return function(_solve, backward)


solve = Operator(
    OpSpec("solve", jnp.linalg.solve, "(n,n),(n,2)->(n,2)", domains={"a": "definite"}, input_names=("a", "b")),
    _solve,
    {
        # Below the diagonal, where cholesky reads, what lies above it counts as well.
        "lower_triangle_only": Mistake(_solve_with(torch.tril), "vjp", passes=("forward",)),
        "symmetrized_twice": Mistake(_solve_with(lambda g: g + g.mT), "vjp", passes=("forward",)),
        "inverse_in_16_bits": Mistake(
            lambda a, b: (torch.linalg.inv(a).bfloat16() @ b.bfloat16()).to(a.dtype), "forward", "float32"
        ),
    },
)

# log det


def _logdet(a):
    return 2 * torch.linalg.cholesky(a).diagonal().log().sum()


logdet = Operator(
    OpSpec("logdet", lambda a: jnp.linalg.slogdet(a)[1], "(n,n)->()", domains={"a": "definite"}),
    _logdet,
    {
        "of_the_factor": Mistake(lambda a: torch.linalg.cholesky(a).diagonal().log().sum(), "forward"),
        "cotangent_ignored": Mistake(function(_logdet, lambda a, w: torch.linalg.inv(a)), "vjp", passes=("forward",)),
        "diagonal_counted_once": Mistake(
            function(_logdet, lambda a, w: w * (2 * torch.linalg.inv(a) - torch.linalg.inv(a).diagonal().diag())),
            "vjp",
            passes=("forward",),
        ),
        "inverse_detached": Mistake(
            function(_logdet, lambda a, w: w * torch.linalg.inv(a).detach()), "vjp_of_vjp", passes=("vjp",)
        ),
    },
)
