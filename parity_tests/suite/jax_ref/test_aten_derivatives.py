"""Derivatives of `jax_ref.aten` at points where those that JAX would take by itself are no numbers, or wrong."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref.aten import OPERATORS
from parity_tests.suite.marks import fast

norm, pinv = OPERATORS["aten::linalg_vector_norm"], OPERATORS["aten::linalg_pinv"]


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
def test_the_second_derivative_of_a_norm_at_an_entry_of_0():
    """The Hessian of |x| is (1 - x xᵀ / |x|²) / |x|."""
    x = jnp.asarray([0.0, 3.0, 4.0])
    right = (jnp.eye(3) - jnp.outer(x, x) / 25) / 5
    np.testing.assert_allclose(jax.hessian(norm)(x), right, rtol=1e-15, atol=1e-17)


@fast("complex-1.0")
@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("zeros", [np.zeros(2), np.zeros(2, complex)], ids=["real", "complex"])
def test_the_derivative_of_the_norm_0_is_0(order, zeros):
    tangent = jax.jvp(lambda x: norm(x, order), (jnp.asarray(zeros),), (jnp.ones_like(zeros),))[1]
    assert tangent == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "A", [np.eye(3), np.diag([2.0, 2.0, 0.5])[:, :2], np.eye(2) * 1j], ids=["identity", "tall", "complex"]
)
def test_the_pseudoinverse_of_equal_singular_values(A):
    rng = np.random.default_rng(0)
    A_dot = rng.standard_normal(A.shape) + (1j * rng.standard_normal(A.shape) if np.iscomplexobj(A) else 0)

    def along(t):
        return pinv(jnp.asarray(A) + t * A_dot)

    h = 1e-5
    first, second = jax.jacfwd(along)(0.0), jax.jacfwd(jax.jacfwd(along))(0.0)
    assert np.isfinite(first).all()
    np.testing.assert_allclose(first, (along(h) - along(-h)) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(second, (jax.jacfwd(along)(h) - jax.jacfwd(along)(-h)) / (2 * h), atol=1e-7)
