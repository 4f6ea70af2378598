"""Eigenvalues of general matrices, and the complex linear systems that their derivatives solve."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.formats import COMPLEX, PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded


@pytest.fixture(autouse=True)
def in_double_precision():
    with pinned():
        yield


FLOAT32, COMPLEX64 = PRECISIONS["float32"], COMPLEX["complex64"]
EIGENVALUES = OpSpec("eigvals", jnp.linalg.eigvals, "(3,3)->(3)", input_names=("A",))


def matrices(kind: str, n: int, count: int = 30) -> list[np.ndarray]:
    """In float32: normal ones, ones with columns of very different sizes, and nearly triangular ones."""
    rng = np.random.default_rng(0)
    drawn = [rng.standard_normal((n, n)) for _ in range(count)]
    if kind == "graded":
        drawn = [a * np.logspace(0, 3, n) for a in drawn]
    elif kind == "nearly triangular":
        drawn = [np.triu(a) + 1e-3 * a for a in drawn]
    return [FLOAT32.rounded(a) for a in drawn]


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("kind", ["normal", "graded", "nearly triangular"])
def test_a_computation_in_float32_stays_within_the_bound(kind, n):
    jaxpr = jax.make_jaxpr(jnp.linalg.eig)(np.zeros((n, n)))
    ratios = []
    for A in matrices(kind, n):
        (w, of_values), (V, of_vectors) = bounded(jaxpr, A, precision=FLOAT32)
        found, vectors = (y.numpy().astype(complex) for y in torch.linalg.eig(torch.tensor(A, dtype=torch.float32)))
        order = np.abs(w[:, None] - found).argmin(1)
        if len({*order}) < n:
            continue
        vectors = vectors[:, order]
        vectors = vectors * np.exp(1j * np.angle((vectors.conj() * V).sum(0)))  # the phase is a choice
        errors = [np.abs(found[order] - w), np.abs(vectors - V)]
        for error, bound in zip(errors, (of_values, of_vectors), strict=True):
            assert (error <= bound).all()
            ratios += [*(error / bound)[np.isfinite(bound)]]
    assert len(ratios) > 4 * n  # bounds that are infinite would prove nothing
    assert max(ratios) > 1e-3


@pytest.mark.parametrize("name", ["solve", "lu", "inv"])
def test_complex_systems(name):
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return COMPLEX64.rounded(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    ours, theirs, shapes = {
        "solve": (jnp.linalg.solve, torch.linalg.solve, ((6, 6), (6, 2))),
        "lu": (lambda A: jax.lax.linalg.lu(A)[0], lambda A: torch.linalg.lu_factor(A)[0], ((6, 6),)),
        "inv": (jnp.linalg.inv, torch.linalg.inv, ((6, 6),)),
    }[name]
    ratios = []
    for _ in range(20):
        x = [normal(*shape) for shape in shapes]
        ((y, bound),) = bounded(jax.make_jaxpr(ours)(*x), *x, precision=COMPLEX64)
        found = theirs(*(torch.tensor(a, dtype=torch.complex64) for a in x)).numpy().astype(complex)
        ratios += [*(np.abs(found - y) / bound).ravel()]
    assert 1e-3 < max(ratios) <= 1


class Unconjugated(torch.autograd.Function):
    """The gradient V⁻ᴴ diag(w) Vᴴ, with transposes in place of the adjoints."""

    @staticmethod
    def forward(ctx, A):
        w, V = torch.linalg.eig(A)
        ctx.save_for_backward(V)
        return w

    @staticmethod
    def backward(ctx, w):
        (V,) = ctx.saved_tensors
        return torch.linalg.solve(V.mT, w.unsqueeze(-1) * V.mT).real


@pytest.mark.slow
def test_derivatives_of_eigenvalues():
    right = crosscheck(torch.linalg.eigvals, EIGENVALUES, checks=["vjp", "jvp"], dtypes=["float64", "float32"])
    assert {row.verdict for row in right.rows} == {Verdict.PASS}, str(right)
    wrong = crosscheck(Unconjugated.apply, EIGENVALUES, checks=["vjp"], dtypes=["float64"])
    assert [row.verdict for row in wrong.rows] == [Verdict.PASS, Verdict.MISMATCH], str(wrong)


def test_an_eigenvalue_that_is_defective_has_no_bound():
    A = np.array([[1.0, 1.0], [0.0, 1.0]])
    (_, of_values), (_, of_vectors) = bounded(jax.make_jaxpr(jnp.linalg.eig)(A), A, precision=FLOAT32)
    assert np.isinf(of_values).all()
    assert np.isinf(of_vectors).all()
