"""Constants beyond the format: a formula that has them has a bound, and nothing else has another one than before."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.matrix import linear_solve
from parity_tests.harness.rounding import scales as rounding_scales
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.operators.matrix_functions import by_taylor
from parity_tests.suite.marks import fast

F16 = PRECISIONS["float16"]
X, Z = np.array([0.25, -1.5, 2.0, 4.0]), np.array([-0.75, 3.0, 0.5, -2.0])


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def bound_of(f, *args):
    """In float16, of the only result."""
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=F16)
    return value, bound


def pade(x, unit=1.0):
    """An approximation of exp(x), with all constants divided by a number."""
    p0, p1, p2 = 17643225600 / unit, 8821612800 / unit, 2075673600 / unit
    return (p0 + p1 * x + p2 * (x * x)) / (p0 - p1 * x + p2 * (x * x))


def one_by_one(x, unit):
    """The same in float16, each constant and each result rounded."""
    half = np.float16
    p0, p1, p2 = (half(c / unit) for c in (17643225600, 8821612800, 2075673600))
    square = half(half(x) * half(x))
    odd, even = half(p1 * half(x)), half(p0 + half(p2 * square))
    return float(half(even + odd) / half(even - odd))


@pytest.mark.parametrize("unit", [2.0**34, 17643225600, 1e9], ids=["a power of two", "the first constant", "1e9"])
@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit, jax.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_the_common_scale_of_a_formula_is_free(unit, wrapped):
    rng = np.random.default_rng(0)
    x = F16.rounded(rng.uniform(-3, 3, 200))
    value, bound = bound_of(wrapped(pade), x)
    assert Comparison("y", np.array([one_by_one(a, unit) for a in x]), value, bound).holds
    assert (bound <= 64 * F16.u * np.maximum(np.abs(value), 1)).all()
    assert not Comparison("y", value * 1.05, value, bound).holds


def test_the_bound_is_that_of_the_same_formula_with_its_constants_divided():
    """As if the oracle had been written so; but for the constants, which need not round there."""
    _, bound = bound_of(pade, X)
    _, divided = bound_of(lambda x: pade(x, 2.0**34), X)
    np.testing.assert_array_less(divided, bound)
    np.testing.assert_array_less(bound, 2 * divided)


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x: 1e6 * x, id="the result"),
        pytest.param(lambda x: 1e6 * x * (1e6 * x) / 1e6, id="a result of scaled numbers"),
        pytest.param(lambda x: 1e6 * ((x + 30) ** 8 / (x + 30) ** 7) / 1e6, id="a power"),
        pytest.param(lambda x: 1e6 * ((y := (x + 60) * x * x) * y * y / (y * y)) / 1e6, id="a product"),
        pytest.param(lambda x: 1e6 * jnp.exp(x + 20) / 1e6, id="an exponential"),
        pytest.param(lambda x: jnp.log1p(1e6 * x), id="the argument of a function"),
        pytest.param(lambda x: jnp.maximum(1e6 * x, 0.0) / 1e6, id="the argument of a maximum"),
        pytest.param(lambda x: lax.fori_loop(0, 2, lambda i, y: y + x, 1e6 * x) / 1e6, id="a loop"),
        pytest.param(lambda x: jnp.linalg.det(jnp.diag(1e6 * x)) * 0.0 + x, id="LU factors that solve no system"),
    ],
)
def test_whatever_overflows_itself_has_no_bound(f):
    x = np.array([1.0, 2.0, 3.0, 4.0])
    _, bound = bound_of(f, x)
    assert np.isinf(bound).all()


MASKED = {
    "added to scores": lambda x, m: jax.nn.softmax(x - 1e9 * m),
    "in place of scores": lambda x, m: jax.nn.softmax(jnp.where(m > 0, -1e9, x)),
    "an array": lambda x, m: jax.nn.softmax(x + jnp.array([0.0, -1e9, 0.0, 0.0])),
    "before an exponential": lambda x, m: jnp.exp(x - 1e9 * m),
    "before a maximum": lambda x, m: jnp.maximum(x - 1e9 * m, -3.0),
    "the largest of all": lambda x, m: jnp.max(x - 1e9 * m) + x,
    "of the largest number": lambda x, m: jnp.where(m > 0, jnp.finfo(x.dtype).min, x) * 0.5,
    "log-sum-exp": lambda x, m: jax.scipy.special.logsumexp(x - 1e9 * m) + x,
    "its gradient": lambda x, m: jax.grad(lambda x: jax.nn.softmax(x - 1e9 * m)[0])(x),
}


@pytest.mark.parametrize("f", MASKED.values(), ids=MASKED)
@pytest.mark.parametrize("mask", [np.array([0.0, 1.0, 0.0, 0.0]), np.zeros(4), np.ones(4)], ids=["one", "none", "all"])
def test_a_mask_is_judged_as_if_there_were_no_scales(f, mask, monkeypatch):
    value, bound = bound_of(f, X, mask)
    monkeypatch.setattr(rounding_scales, "has_constants_beyond", lambda closed, precision: False)
    before, bound_before = bound_of(f, X, mask)
    np.testing.assert_array_equal(value, before)
    np.testing.assert_array_equal(bound, bound_before)


def test_what_has_a_bound_keeps_it_where_its_neighbour_gets_one(monkeypatch):
    """The formula has a bound without scales where it does not overflow."""

    def f(x):
        return 1e5 * x / 1e5

    x = np.array([0.1, 0.3, 2.0])
    _, bound = bound_of(f, x)
    monkeypatch.setattr(rounding_scales, "has_constants_beyond", lambda closed, precision: False)
    _, before = bound_of(f, x)
    assert np.isinf(before).tolist() == [False, False, True]
    assert np.isfinite(bound).all()
    np.testing.assert_array_equal(bound[:2], before[:2])


def test_what_is_divided_by_a_power_of_two_may_underflow():
    x = F16.rounded(
        np.random.default_rng(0).uniform(-1, 1, 100) * np.exp2(np.random.default_rng(1).uniform(-20, 4, 100))
    )
    divided, error = rounding_scales.at((x, np.zeros(x.shape)), 20, F16)
    np.testing.assert_array_equal(divided, x / 2.0**20)
    assert (np.abs(F16.rounded(divided) - divided) <= error).all()
    assert (error <= F16.tiny).all()


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_given_scales_and_returns_them(condition):
    def f(x):
        a, b = lax.cond(condition == (x[0] > -9), lambda y: (3e8 * y, 2e9), lambda y: (y, 7.0), 1e6 * x)
        return a / (1e6 * b)

    value, bound = bound_of(f, X)
    assert Comparison("y", F16.rounded(value), value, bound).holds
    assert (bound <= 16 * F16.u * np.abs(value) + F16.tiny).all()


def test_either_of_two_branches_with_other_scales():
    """Where rounding may choose the other one: here both are the same number, by other constants."""

    def f(x):
        near = x[1] * 3.0 > 3.0 * x[1] * (1 + 1e-6)
        a, b = lax.cond(near, lambda y: (3e8 * y, 3e8), lambda y: (1e6 * y, 1e6), x)
        return a * 0.5 + b * 0

    _, bound = bound_of(f, np.array([1e-4, 1.0]))
    assert np.isinf(bound[1])  # 5e5, or 1.5e8
    _, bound = bound_of(lambda x: f(x) / 1e6, np.array([1e-4, 1.0]))
    assert (bound >= np.abs(150 - 0.5) * np.array([1e-4, 1.0])).all()
    assert np.isfinite(bound).all()


@fast("norm 0.2")
@pytest.mark.parametrize("norm", [0.01, 0.2, 0.8, 2.0, 2.5], ids=lambda x: f"norm {x}")
def test_a_matrix_exponential(norm):
    """Each norm takes another approximation, the last three with constants beyond the format: up to 6.5e16."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 3):
        x = rng.uniform(-1, 1, (n, n))
        x = F16.rounded(x * norm / np.linalg.norm(x, 1))
        value, bound = bound_of(jax.scipy.linalg.expm, x)
        half = torch.tensor(x, dtype=torch.float16)
        assert np.isfinite(bound).all()
        for right in (by_taylor(half), by_taylor(half.float()).half()):
            assert Comparison("y", right.double().numpy(), value, bound).holds
        if n > 1:  # found.md, 32
            wrong = torch.linalg.matrix_exp(half).double().numpy()
            assert not Comparison("y", wrong, value, bound).holds
        assert not Comparison("y", 1.1 * value + 0.1, value, bound).holds


def test_a_matrix_that_may_be_singular_by_far_has_no_bound():
    """The bound was negative where the error is so large that 1 / (1 - G) is next to 0, from below."""
    one = np.ones((1, 1))
    for error in (0.5, 2.0, 1e6, 1e12, 1e17):
        bound = linear_solve(one, error * one, one, 0 * one, F16)
        assert np.isfinite(bound) == (error < 1)
        assert bound > 0
