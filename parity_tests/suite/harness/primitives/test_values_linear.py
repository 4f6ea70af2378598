"""Triangular systems and factorizations by SciPy against JAX: the same values, for every way that they are used."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.suite.harness._ops import normal
from parity_tests.suite.harness.primitives.test_values import compare
from parity_tests.suite.marks import fast

WAYS = list(itertools.product([False, True], repeat=5))


def _numbers(kind: str, *shape: int, seed: int = 0) -> np.ndarray:
    x = normal(*shape, seed=seed)
    return x + 1j * normal(*shape, seed=seed + 1) if kind == "complex" else x


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_triangular_systems(kind):
    a, b = _numbers(kind, 2, 3, 3) + 2 * np.eye(3), _numbers(kind, 2, 3, 3, seed=2)

    def f(a: jax.Array, b: jax.Array) -> list[jax.Array]:
        return [
            lax.linalg.triangular_solve(
                a, b, left_side=left, lower=lower, transpose_a=transpose, conjugate_a=conjugate, unit_diagonal=unit
            )
            for left, lower, transpose, conjugate, unit in WAYS
        ]

    assert "triangular_solve" in compare(f, a, b)


@fast("(3, 3)-real", "(1, 1)-complex", "(0, 2, 2)-real")
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (3, 5), (5, 3), (1, 1), (0, 0), (0, 2, 2)], ids=str)
def test_factorizations(shape, kind):
    assert "lu" in compare(lambda x: jax.lax.linalg.lu(x), _numbers(kind, *shape))


def test_a_singular_and_an_infinite_matrix():
    compare(lambda x: jax.lax.linalg.lu(x), np.ones((3, 3)))
    compare(lambda x: jax.lax.linalg.lu(x), np.full((3, 3), np.inf))
    compare(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), np.zeros((2, 2)), np.ones((2, 1))
    )


def test_nothing_is_compiled_for_a_new_shape(monkeypatch):
    """What JAX itself evaluates goes through `apply_primitive`."""
    from jax._src import dispatch  # the only place where a compilation can be seen

    def f(x: jax.Array) -> jax.Array:
        lu, _, order = jax.lax.linalg.lu(x)
        return lax.linalg.triangular_solve(lu, x[order], left_side=True)

    with pinned():
        programs = [(jax.make_jaxpr(lambda x: jax.vjp(f, x)[1](f(x)))(normal(n, n)), n) for n in (3, 5)]

        def refused(primitive, *args, **params):
            raise AssertionError(f"JAX evaluates {primitive}")

        monkeypatch.setattr(dispatch, "apply_primitive", refused)
        for program, n in programs:
            assert np.isfinite(evaluate(program, normal(n, n))[0]).all()


@pytest.mark.slow
def test_the_derivatives_of_an_inverse():
    x = normal(2, 3, 3) + 3 * np.eye(3)
    compare(jax.grad(lambda x: jnp.sum(jnp.sin(jnp.linalg.inv(x)))), x, rtol=1e-11)
