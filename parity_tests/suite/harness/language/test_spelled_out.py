"""Equations that stand for a program: the program computes the same, and has bounds."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.language.spelled_out import as_sum, spelled_out
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.rounding.analysis import bounded

X = np.array([0.25, -0.7, 1.4])
OF_JAX_0_11 = pytest.mark.skipif(not hasattr(lax, "polynomial"), reason="JAX before 0.11 has no such primitive")


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def _equation(f: Callable, *args: np.ndarray, name: str):
    return next(eqn for eqn in jax.make_jaxpr(f)(*args).eqns if eqn.primitive.name == name)


def _pair(combine: Callable) -> Callable:
    return lambda x: lax.reduce((x, 2 * x), (0.5, -1.0), combine, (0,))


PROGRAMS = {
    "polynomial": (lambda x: lax.polynomial(x, [1.0, -2.0, 0.5, 3.0]), X),
    "optimization_barrier": (lambda x: lax.optimization_barrier((x, 2 * x)), X),
    "reduce": (_pair(lambda a, b: (lax.min(a[0], b[0]), lax.max(a[1], b[1]))), X),
    "scatter-sub": (lambda x: lax.scatter_sub(x, jnp.array([[1], [1]]), x[:2], _PLACES), X),
}
_PLACES = lax.ScatterDimensionNumbers(
    update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)


@pytest.mark.parametrize("name", [pytest.param(x, marks=OF_JAX_0_11 if x == "polynomial" else ()) for x in PROGRAMS])
def test_the_program_of_a_primitive_computes_what_it_computes(name):
    f, x = PROGRAMS[name]
    program = jax.make_jaxpr(f)(x)
    assert spelled_out(_equation(f, x, name=name)) is not None
    for ours, its in zip(evaluate(program, x), jax.tree.leaves(f(jnp.asarray(x))), strict=True):
        np.testing.assert_allclose(ours, its, rtol=1e-14)
    for y, bound in bounded(program, x, precision=PRECISIONS["float32"]):
        assert (bound <= 1e-4 * (1 + np.abs(y))).all()


@pytest.mark.parametrize(
    "combine",
    [
        pytest.param(lambda a, b: (a[0] + b[1], a[1] + b[0]), id="of both arrays"),
        pytest.param(lambda a, b: (lax.atan2(a[0], b[0]), a[1] + b[1]), id="of another function"),
    ],
)
def test_a_reduction_of_several_arrays_by_another_function_has_no_rule(combine):
    f = _pair(combine)
    assert spelled_out(_equation(f, X, name="reduce")) is None
    with pytest.raises(NoRule, match="'reduce'"):
        list(bounded(jax.make_jaxpr(f)(X), X, precision=PRECISIONS["float32"]))


@OF_JAX_0_11
def test_the_derivative_of_tanh_is_a_sum_of_four_terms():
    eqn = _equation(lambda x: lax.one_minus_square(x), X, name="one_minus_square")
    np.testing.assert_allclose(evaluate(as_sum(eqn), X)[0], 1 - X * X, rtol=1e-14)
    assert spelled_out(eqn) is None  # its bound is that of one operation


def test_a_function_of_the_users_that_is_called_as_one_of_jaxs_stays_as_it_is():
    @jax.custom_jvp
    def exp_neg_sq(x):
        return 3 * x

    exp_neg_sq.defjvps(lambda t, y, x: 3 * t)
    eqn = _equation(lambda x: exp_neg_sq(x), X, name="custom_jvp_call")
    assert spelled_out(eqn) is None
    ((y, _),) = bounded(jax.make_jaxpr(exp_neg_sq)(X), X, precision=PRECISIONS["float32"])
    np.testing.assert_array_equal(y, 3 * X)


def test_sinc_is_what_others_compute_and_a_function_of_the_users_of_that_name_is_not():
    def sinc(x):
        return 3 * x

    theirs, own = (_equation(f, X, name="jit") for f in (jnp.sinc, jax.jit(sinc)))
    np.testing.assert_allclose(evaluate(spelled_out(theirs), X)[0], np.sinc(X), rtol=1e-14)
    assert spelled_out(own) is None


def test_the_derivative_of_erf_has_the_bound_of_its_formula():
    """JAX 0.11 splits the number by its bits, which a rounding moves by more than it moves the number."""
    derivative = jax.make_jaxpr(lambda x: jax.vjp(lax.erf, x)[1](jnp.ones(3))[0])(X)
    plain = jax.make_jaxpr(lambda x: 2 / np.sqrt(np.pi) * jnp.exp(-(x * x)))(X)
    for precision in PRECISIONS.values():
        ((y, bound),) = bounded(derivative, X, precision=precision)
        ((exact, of_formula),) = bounded(plain, X, precision=precision)
        np.testing.assert_allclose(y, exact, rtol=1e-14)
        assert (bound <= 1.5 * of_formula).all()
