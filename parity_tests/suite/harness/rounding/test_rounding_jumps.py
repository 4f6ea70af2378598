"""Integers that rounding may change: the sides of a jump, each for the whole program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding import integer_jumps as rounding_jumps
from parity_tests.harness.rounding.analysis import bounded

F32 = PRECISIONS["float32"]
SORTED = np.arange(11.0) ** 2 / 8 - 3


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def bound_of(f, *args, precision=F32):
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=precision)
    return value, bound


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
@pytest.mark.parametrize("quantile", [jnp.quantile, jnp.nanquantile], ids=["quantile", "nanquantile"])
@pytest.mark.parametrize("q", [0.1, 0.3, 0.7])  # q (n - 1) is an integer but for rounding
def test_a_quantile_that_is_an_element_but_for_rounding(q, quantile, precision):
    m = round(10 * q)
    value, bound = bound_of(lambda x: quantile(x, q), SORTED, precision=precision)
    right = SORTED[m] + 2 * precision.u * m * np.array([SORTED[m] - SORTED[m - 1], 0.0, SORTED[m + 1] - SORTED[m]])
    for answer in right * np.array([-1.0, 1.0, 1.0]) + np.array([2 * SORTED[m], 0.0, 0.0]):
        assert Comparison("y", np.array(answer), value, bound).holds
    assert bound <= 64 * precision.u * m * np.ptp(SORTED)  # n may be counted up to, with as many roundings
    for wrong in (SORTED[m - 1], SORTED[m + 1], (SORTED[m] + SORTED[m + 1]) / 2):
        assert not Comparison("y", np.array(wrong), value, bound).holds

    def among_many_jumps(x):
        return quantile(x, q) + 0 * jnp.floor(8 * x).sum()

    _, of_each = bound_of(among_many_jumps, SORTED, precision=precision)  # where each integer has a bound by itself
    assert of_each > 0.1


@pytest.mark.parametrize(
    "transformed", [jax.grad, lambda f: jax.jit(jax.grad(f)), jax.jacfwd], ids=["grad", "jit", "jvp"]
)
def test_the_gradient_goes_to_the_element(transformed):
    value, bound = bound_of(transformed(lambda x: jnp.quantile(x, 0.3)), SORTED)
    np.testing.assert_allclose(value, np.eye(11)[3], atol=1e-6)
    assert (bound < 1e-5).all()


@pytest.mark.parametrize(
    ("f", "at", "answers"),
    [
        pytest.param(lambda x: x * 10 - jnp.floor(x * 10), 0.3, (0.0, 1.0), id="a fraction"),
        pytest.param(lambda x: jnp.ceil(x * 10) - jnp.floor(x * 10), 0.3, (0.0, 1.0), id="ceil and floor"),
        pytest.param(lambda x: jnp.round(x * 5), 0.3, (1.0, 2.0), id="round"),
        pytest.param(lambda x: 1.0 * (x * 10).astype(int), 0.3, (2.0, 3.0), id="to an integer"),
        pytest.param(lambda x: 1.0 * (-x * 10).astype(int), 0.3, (-2.0, -3.0), id="to a negative integer"),
        pytest.param(lambda x: jnp.floor(x * 10) + jnp.floor(x * 20), 0.3, (7.0, 8.0, 9.0), id="two jumps"),
        pytest.param(lambda x: jnp.floor(x * 10) - jnp.floor(x * 20), 0.3, (-2.0, -3.0, -4.0), id="their difference"),
        pytest.param(jax.jit(lambda x: jnp.floor(x * 10)), 0.3, (2.0, 3.0), id="jit"),
    ],
)
def test_where_the_program_jumps_its_bound_is_the_jump(f, at, answers):
    value, bound = bound_of(f, np.array(at))
    for answer in answers:
        assert Comparison("y", np.array(answer), value, bound).holds
    width = max(answers) - min(answers)
    assert not Comparison("y", np.array(max(answers) + width + 0.1), value, bound).holds
    assert not Comparison("y", np.array(min(answers) - width - 0.1), value, bound).holds


def test_what_is_the_same_on_both_sides_has_no_jump():
    """x is rounded up and down together: the distance of both is 1, or there is none and the weight is 0."""

    def line(x):
        low, high = jnp.floor(x * 10), jnp.ceil(x * 10)
        return low + (x * 10 - low) * (high - low)

    value, bound = bound_of(line, np.array(0.3))
    assert abs(value - 3) < 1e-12
    assert bound < 64 * F32.u
    assert not Comparison("y", np.array(2.9999), value, bound).holds


def test_too_many_jumps_have_the_bounds_that_each_has_by_itself(monkeypatch):
    def f(x):
        return jnp.sum(jnp.floor(x))

    near = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    _, bound = bound_of(f, near)
    monkeypatch.setattr(rounding_jumps, "on_chosen_side", lambda *_: None)
    _, before = bound_of(f, near)
    assert bound == before
    assert bound > 5


def test_where_nothing_is_near_a_jump_nothing_changes(monkeypatch):
    def f(x):
        return x * jnp.floor(x) + jnp.round(x)

    x = np.array([0.3, 1.4, -2.7])
    _, bound = bound_of(f, x)
    monkeypatch.setattr(rounding_jumps, "on_chosen_side", lambda *_: None)
    np.testing.assert_array_equal(bound, bound_of(f, x)[1])
