"""The Taylor rate: 2 for a right derivative, 1 for a wrong one, infinite where the function is linear."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import OpSpec
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.taylor import TaylorTest, taylor_test
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import PAIR, normal

DERIVATIVES = [name for name, order in ORDERS.items() if order]


def rate(spec: OpSpec, name: str, spoil: Callable = lambda label, y: y) -> float:
    """The rate of a map of the oracle's, with its own results spoilt."""
    found = result_of(spec, name, spoil)
    assert found is not None
    return found.rate


def result_of(
    spec: OpSpec, name: str, spoil: Callable = lambda label, y: y, seed: int = 0, which: int = 0
) -> TaylorTest | None:
    """The test of a map of the oracle's, with its own results spoilt, at one of the samples."""
    sample = list(samples(spec, seed))[which]
    with pinned():
        oracle = Oracle(spec, sample)
        inputs = sample.primals(oracle.inputs)
        shapes = oracle.shapes(tuple(x.shape for x in inputs))
        slots = oracle.map(name).arguments[len(inputs) :]
        args = [*inputs, *(sample.draw(slot.label, shapes[slot.like]) for slot in slots)]
        weights = [sample.draw(f"weight {slot.label}", shapes[slot.like]) for slot in oracle.map(name).results]

        def evaluate(which, point):
            labels = [slot.label for slot in oracle.map(which).results]
            values = [y.value for y in oracle.evaluate(which, point, FLOAT64)]
            return [spoil(x, y) if which == name else y for x, y in zip(labels, values, strict=True)]

        return taylor_test(oracle, name, evaluate, args, weights)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_right_derivative(name):
    assert rate(PAIR, name) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda y: 2 * y, id="factor"),
        pytest.param(lambda y: -y, id="sign"),
        pytest.param(lambda y: 1.02 * y, id="two percent"),
        pytest.param(lambda y: 1.0001 * y, id="one in ten thousand"),
        pytest.param(lambda y: None, id="no result"),
        pytest.param(lambda y: np.roll(y, 1), id="shifted"),
    ],
)
@pytest.mark.parametrize("name", ["vjp", "jvp", "vjp_of_vjp"])
def test_a_wrong_derivative(name, spoil):
    wrong = result_of(PAIR, name, lambda _, y: spoil(y))
    assert wrong.rate == pytest.approx(1, abs=0.1)
    assert not wrong.right


@pytest.mark.parametrize("label", ["x_bar", "y_bar", "first_bar_bar", "second_bar_bar"])
def test_one_wrong_result_among_right_ones(label):
    assert not result_of(PAIR, "vjp_of_vjp", lambda name, y: y + (name == label)).right


def test_one_wrong_entry():
    def spoil(_, y):
        y = y.copy()
        y.flat[5] += 0.5
        return y

    assert not result_of(PAIR, "vjp", spoil).right


LINEAR = OpSpec("linear", primal=lambda x: 3 * x - jnp.flip(x), inputs=(normal(5),))


@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_a_linear_map_has_no_remainder(name):
    assert rate(LINEAR, name) == np.inf
    assert rate(LINEAR, name, lambda _, y: 2 * y) == pytest.approx(1, abs=0.1)


def test_a_quadratic_has_rate_2_to_the_end():
    assert rate(OpSpec("square", primal=lambda x: x * x, inputs=(normal(5),)), "vjp") == pytest.approx(2, abs=0.01)


def test_a_cubic_at_its_inflection_vanishes_faster():
    assert rate(OpSpec("cube", primal=lambda x: x**3, inputs=(np.zeros(5),)), "jvp") > 2.9


@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_a_kink_between_the_points_is_not_a_wrong_derivative(name):
    relu = OpSpec("relu", primal=lambda x: jnp.maximum(x, 0), inputs=(normal(40),))
    assert result_of(relu, name).right
    assert not result_of(relu, name, lambda _, y: np.abs(y) + 1).right


@pytest.mark.parametrize("off", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("name", ["vjp", "jvp", "vjp_of_vjp", "jvp_of_jvp"])
def test_an_error_that_is_small_beside_the_curvature(name, off):
    """The rate of a remainder, between 1 and 2, does not tell it; rounding and the term of third order do."""
    found = result_of(PAIR, name, lambda _, y: (1 + off) * y)
    assert not found.right
    assert found.relative_error == pytest.approx(off, rel=0.5)


SMOOTH_OR_NOT = {
    "pair": PAIR.primal,
    "exp": lambda x, y: jnp.exp(x) * y,
    "reciprocal": lambda x, y: 1 / (x * x + 1e-3) + y,  # curved within the largest steps
    "root": lambda x, y: jnp.sqrt(jnp.abs(x)) * y,
    "power 3/2": lambda x, y: jnp.abs(x) ** 1.5 + y * y,
    "absolute value": lambda x, y: jnp.abs(x - y),
    "maximum": lambda x, y: jnp.maximum(jnp.max(x), y),
    "jumps": lambda x, y: jnp.floor(8 * x) * y,
    "softmax": lambda x, y: jax.nn.softmax(x) * y,
    "sorted": lambda x, y: jnp.sort(x.ravel()).reshape(x.shape) * y,
}


@pytest.mark.parametrize("name", ["vjp", "jvp"])
@pytest.mark.parametrize("operator", SMOOTH_OR_NOT)
def test_no_alarm_on_a_right_derivative(operator, name):
    spec = OpSpec("op", primal=SMOOTH_OR_NOT[operator], inputs=(normal(20, 20), normal(20, 20, seed=1)))
    found = result_of(spec, name)
    assert found.right, found


QUOTIENT = OpSpec("quotient", primal=lambda x: 1 / x, inputs=(np.array([-2.0, 0.5, 1.8e-4, -0.8]),))


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("seed", range(4))
def test_a_pole_between_the_points_is_not_a_wrong_derivative(name, seed):
    found = result_of(QUOTIENT, name, seed=seed)
    assert found is None or found.right


@pytest.mark.parametrize("name", ["vjp", "jvp"])
def test_a_wrong_derivative_is_found_near_a_pole(name):
    found = result_of(QUOTIENT, name, lambda label, y: 1.01 * y)
    assert found is not None
    assert not found.right


def test_a_wrong_derivative_is_found_beside_many_kinks():
    spec = OpSpec("op", primal=lambda x, y: jnp.abs(x - y), inputs=(normal(20, 20), normal(20, 20, seed=1)))
    assert not result_of(spec, "jvp", lambda _, y: (1 + 1e-5) * y).right


def test_between_the_slopes_of_two_sides():
    """At a kink any of these is right; what lies beyond them is not."""
    spec = OpSpec("abs", primal=jnp.abs, inputs=(np.zeros(5),))
    assert result_of(spec, "jvp", lambda _, y: 0 * y).right
    assert not result_of(spec, "jvp", lambda _, y: 0 * y + 3).right


def test_nothing_is_said_where_a_value_is_not_finite():
    spec = OpSpec("log", primal=jnp.log, inputs=(np.array([0.0, 1.0]),))
    assert result_of(spec, "vjp") is None


def test_every_derivative_has_the_map_that_it_differentiates():
    assert set(BASES) == set(DERIVATIVES)
    assert BASES["vjp"] == BASES["jvp"] == "forward"
    assert BASES["jvp_of_vjp"] == BASES["vjp_of_vjp"] == "vjp"
    assert BASES["jvp_of_jvp"] == BASES["vjp_of_jvp"] == "jvp"
