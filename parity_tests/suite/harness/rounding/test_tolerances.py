"""What an author declares to be computed to a tolerance: no less is allowed, and no more."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import JaxCandidate, OpSpec, Verdict, to_tolerance
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.marks import fast

FLOAT64 = PRECISIONS["float64"]
X = np.array([-3.0, 0.0, 0.5])


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def bound_of(f, *args):
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=FLOAT64, inputs=0)
    return value, bound


def test_the_value_is_itself_and_the_bound_is_the_tolerance():
    value, bound = bound_of(lambda x: to_tolerance(x, rtol=1e-3, atol=1e-5), X)
    assert value.tolist() == X.tolist()
    assert np.allclose(bound, 1e-3 * np.abs(X) + 1e-5, rtol=1e-12, atol=0)
    value, bound = bound_of(lambda x: 2 * to_tolerance(x, rtol=1e-3), X)
    assert np.allclose(bound, 2e-3 * np.abs(X), rtol=1e-12, atol=0)


def test_tangents_and_cotangents_have_the_relative_tolerance():
    def f(x):
        return to_tolerance(x, rtol=1e-3, atol=1e-5)

    for g in (lambda x: jax.jvp(f, (x,), (x,))[1], lambda x: jax.vjp(f, x)[1](x)[0]):
        value, bound = bound_of(g, X)
        assert value.tolist() == X.tolist()
        assert np.allclose(bound, 1e-3 * np.abs(X), rtol=1e-12, atol=0)


@pytest.mark.slow
def test_it_is_the_identity_to_jax():
    def f(x):
        return to_tolerance(x, rtol=1e-3)

    assert jax.jit(f)(X).tolist() == jax.vmap(f)(X).tolist() == X.tolist()
    assert jax.vmap(jax.grad(f))(X).tolist() == [1, 1, 1]
    assert jax.hessian(lambda x: f(x) ** 2)(0.5) == 2


def test_what_declares_nothing_is_refused():
    with pytest.raises(ValueError, match="declares nothing"):
        to_tolerance(1.0)
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="rtol must be a finite number from 0 on"):
            to_tolerance(1.0, rtol=wrong)
    with pytest.raises(TypeError, match="integers and booleans"):
        to_tolerance(np.arange(3), rtol=1e-3)


@jax.custom_jvp
def _root(y):
    """The square root, which an iteration has computed."""
    return to_tolerance(jnp.sqrt(y), rtol=1e-6)


@_root.defjvp
def _derivative(primals, tangents):
    x = _root(*primals)
    return x, tangents[0] / (2 * x)


def _iterated(relative_error, factor=1.0):
    """A square root that is off by so much, with its derivative at what it returns, times a factor."""

    @jax.custom_jvp
    def root(y):
        return jnp.sqrt(y) * (1 + relative_error)

    root.defjvp(lambda primals, tangents: (root(*primals), factor * tangents[0] / (2 * root(*primals))))
    return JaxCandidate(root)


ROOT = OpSpec("root", _root, inputs=(np.abs(normal(5)) + 0.1,), input_names=("y",))
EXACT = OpSpec("root", jnp.sqrt, inputs=ROOT.inputs, input_names=("y",))


@fast("forward")
@pytest.mark.parametrize("check", ["forward", "vjp", "jvp", "vjp_of_vjp"])
def test_an_iteration_is_held_to_its_tolerance(check):
    assert judged(_iterated(9e-7), ROOT, check).verdict is Verdict.PASS
    assert judged(_iterated(9e-7), EXACT, check).verdict is Verdict.MISMATCH  # so that the declaration counts
    assert judged(_iterated(5e-6), ROOT, check).verdict is Verdict.MISMATCH


def test_a_wrong_derivative_is_found_beyond_the_tolerance():
    assert judged(_iterated(0.0, 1 + 1e-5), ROOT, "vjp").verdict is Verdict.MISMATCH
    assert judged(_iterated(0.0, 1.0), ROOT, "vjp").verdict is Verdict.PASS
