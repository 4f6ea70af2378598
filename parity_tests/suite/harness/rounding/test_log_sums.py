"""Logarithms of sums of exponentials in loops: the bound grows by as much each step, and holds for right code."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref.aten.reductions import logsumexp
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.log_sums import log_sums
from parity_tests.harness.rounding.simulation import StochasticRounding, simulated
from parity_tests.harness.rounding.steps import plan_of

FLOAT64, FLOAT32 = PRECISIONS["float64"], PRECISIONS["float32"]
RNG = np.random.default_rng(3)
X, W = RNG.normal(size=(24, 5)), 2 * RNG.normal(size=(5, 5))


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def forward_algorithm(x, w):
    """The steps of a hidden Markov model, of logarithms."""
    a = x[0]
    for row in x[1:]:
        a = row + logsumexp(a[:, None] + w, (0,))
    return a


def softmin_of_cells(x):
    """Soft-DTW's recursion, of 5 by 4 cells."""
    r = {(0, 0): jnp.zeros(())}
    for i in range(5):
        for j in range(5):
            if i and j:
                before = jnp.stack([r[i - 1, j - 1], r[i - 1, j], r[i, j - 1]])
                r[i, j] = x[i, j] - 0.3 * logsumexp(-before / 0.3, (0,))
            elif i or j:
                r[i, j] = jnp.full((), jnp.inf)
    return r[4, 4]


def gradient_of(f: Callable) -> Callable:
    return lambda *args: jax.vjp(f, *args)[1](jnp.cos(f(*args)))


def largest_bound(f: Callable, *args: np.ndarray, precision: Precision = FLOAT64) -> float:
    ((_, e),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=precision)
    return float(np.max(e)) / precision.u


LOOPS = [(forward_algorithm, (X, W)), (softmin_of_cells, (X,))]


@pytest.mark.parametrize("of", [lambda f: f, gradient_of], ids=["forward", "vjp"])
@pytest.mark.parametrize(("f", "args"), LOOPS, ids=["markov", "dtw"])
def test_simulated_right_code_is_within(of, f, args):
    args = [FLOAT32.rounded(x) for x in args]
    program = jax.make_jaxpr(of(f))(*args)
    expected = bounded(program, *args, precision=FLOAT32)
    worst = 0.0
    for seed in range(5):
        found = simulated(program, args, StochasticRounding(FLOAT32, np.random.default_rng(seed)))
        for y, (x, e) in zip(found, expected, strict=True):
            assert (np.abs(y - x) <= e).all()
            worst = max(worst, np.max(np.abs(y - x) / np.where(e > 0, e, np.inf)))
    assert worst > 1e-3  # the bounds are not idle


def _without_m(x):
    return jnp.log(jnp.exp(x).sum(0))


def _by_powers_of_two(x):
    largest = x.max(0)
    two = np.float32(np.log(2))
    return (largest / two + jnp.log2(jnp.exp2((x - largest) / two).sum(0))) * two


def _pair_by_pair(x):
    total = x[0]
    for row in x[1:]:
        total = jnp.logaddexp(total, row)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("other", [_without_m, _by_powers_of_two, _pair_by_pair])
def test_other_right_programs_are_within(other):
    args = [FLOAT32.rounded(x) for x in (X[:12], W)]
    ((y, e),) = bounded(jax.make_jaxpr(forward_algorithm)(*args), *args, precision=FLOAT32)
    x, w = (jnp.asarray(x, jnp.float32) for x in args)
    found = x[0]
    for row in x[1:]:
        found = row + other(found[:, None] + w)
    assert found.dtype == jnp.float32
    found = np.asarray(found, np.float64)
    assert (np.abs(found - y) <= e).all()
    assert (np.abs(found - y) > 0).any()


def test_the_bound_grows_by_a_step():
    # So do the numbers, by whose size each step rounds: four times as many steps are off by 16 times as much.
    few, many = (largest_bound(forward_algorithm, X[:t], W) for t in (6, 24))
    assert many < 20 * few


def test_one_alone_has_the_bound_of_its_rules(monkeypatch):
    def bound():
        return bounded(jax.make_jaxpr(lambda x: logsumexp(x, (1,)))(X), X, precision=FLOAT32)[0][1]

    narrowed = bound()
    monkeypatch.setattr("parity_tests.harness.rounding.bounds.log_sums", lambda plan: {})
    assert np.array_equal(narrowed, bound())


def test_what_x_is_off_by_is_in_the_bound():
    # x² - x² + x is off by some roundings of x², of which no step of the sum knows.
    x = 100 * X[:, :1] + np.array([[0.0, 1.0, 2.0]])
    ((_, of_x),) = bounded(jax.make_jaxpr(lambda x: (x * x - x * x) + x)(x), x, precision=FLOAT64)
    ((_, e),) = bounded(jax.make_jaxpr(lambda x: logsumexp((x * x - x * x) + x, (1,)))(x), x, precision=FLOAT64)
    assert (e >= of_x.max(1)).all()
    assert (e <= 1.5 * of_x.max(1)).all()


def _masked(x):
    return logsumexp(logsumexp(jnp.where(x > 0.5, -jnp.inf, x), (1,), True) + x, (1,))


def test_masked_entries_and_rows_have_bounds():
    x = np.vstack([X, np.full((1, 5), 2.0)])  # of the last row all are masked
    ((y, e),) = bounded(jax.make_jaxpr(_masked)(x), x, precision=FLOAT64)
    assert np.isneginf(y[-1])
    assert np.isfinite(e).all()


def _shifts_by_another(x):
    m = x.max(1, keepdims=True)
    return jnp.log(jnp.exp(x - m).sum(1, keepdims=True)) + 0.5 * m


def _shifts_along_another_axis(x):
    x = x[:5] * 1.5
    m = x.max(0, keepdims=True)
    return jnp.log(jnp.exp(x - m).sum(1, keepdims=True)) + m


def _sums_squares(x):
    m = x.max(1, keepdims=True)
    return jnp.log((jnp.exp(x - m) ** 2).sum(1, keepdims=True)) + m


def _product(x):
    m = x.max(1, keepdims=True)
    return jnp.log(jnp.exp(x - m).sum(1, keepdims=True)) * m


@pytest.mark.parametrize("f", [_shifts_by_another, _shifts_along_another_axis, _sums_squares, _product])
def test_what_is_none_is_not_taken_for_one(f):
    assert not log_sums(plan_of(jax.make_jaxpr(f)(X).jaxpr))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_it_is_found_along_any_axes(axes):
    found = log_sums(plan_of(jax.make_jaxpr(lambda x: logsumexp(x, axes))(X).jaxpr))
    assert [one.axes for one in found.values()] == [axes]
