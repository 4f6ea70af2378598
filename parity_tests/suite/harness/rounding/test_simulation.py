"""Simulated runs in a short format: unbiased, of the right size, and with loops as JAX runs them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.simulation import RoundingToNearest, StochasticRounding, simulated

SHORT = [PRECISIONS["bfloat16"], PRECISIONS["float16"]]


def _stored(p, seed=0):
    return StochasticRounding(p, np.random.default_rng(seed))


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_a_number_becomes_one_of_its_neighbours_and_its_mean_is_exact(p):
    x = np.full(100_000, 1 + 0.3 * 2 * p.u)
    y = _stored(p)(x)
    assert set(y) == {1.0, 1 + 2 * p.u}
    assert abs((y - x).mean()) < 6 * 2 * p.u * np.sqrt(0.3 * 0.7 / len(x))
    exact = np.array([0.0, -3.0, 2 * p.u, p.smallest, np.inf, -np.inf])
    np.testing.assert_array_equal(_stored(p)(exact), exact)
    assert np.isnan(_stored(p)(np.array([np.nan]))).all()
    np.testing.assert_array_equal(_stored(p)(np.arange(3)), np.arange(3))


def _loops(x):
    carried, sums = lax.scan(lambda c, a: (c * a, c + a), jnp.ones(x.shape[1:]), x, reverse=True)
    _, powers = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x[0]), (0, x[1]))
    chosen = lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x[2])
    matrix = x[:4, :4] + 4 * jnp.eye(4)
    return carried, sums, powers, chosen, jnp.linalg.solve(matrix, x[0, :4]), jax.jit(jnp.tanh)(x)


@pytest.mark.parametrize("p", SHORT, ids=lambda p: p.name)
def test_a_run_is_within_the_bounds_of_the_error_analysis(p):
    rng = np.random.default_rng(3)
    x = p.rounded(rng.standard_normal((6, 5)))
    with pinned():
        program = jax.make_jaxpr(_loops)(x)
        truths = bounded(program, x, precision=p)
        runs = [simulated(program, [x], _stored(p, seed)) for seed in range(4)]
        unrounded = simulated(program, [x], _stored(PRECISIONS["float64"]))
    for run in runs:
        for y, (value, bound) in zip(run, truths, strict=True):
            # Stochastic rounding is off by a unit in the last place at most, where the analysis allows half of one.
            assert (np.abs(y - value) <= 2 * bound).all()
    assert any((a != b).any() for a, b in zip(runs[0], runs[1], strict=True))
    for y, (value, _) in zip(unrounded, truths, strict=True):
        np.testing.assert_allclose(y, value, rtol=1e-12)


def test_an_empty_scan_has_empty_results():
    with pinned():
        program = jax.make_jaxpr(lambda x: lax.scan(lambda c, a: (c + a, c * a), 1.0, x))(np.zeros(0))
        carried, products = simulated(program, [np.zeros(0)], _stored(SHORT[0]))
    assert float(carried) == 1.0
    assert products.shape == (0,)


def test_a_scatter_add_is_rounded_at_every_addition():
    """What an index_add in float16 does, also where an index is out of range, and where no index is given."""
    p, rng = PRECISIONS["float16"], np.random.default_rng(0)
    x, updates = p.rounded(rng.standard_normal((4, 3))), p.rounded(rng.standard_normal((50, 3)))
    index = rng.integers(0, 5, 50)
    expected = x.astype(np.float16)
    for at, update in zip(index, updates.astype(np.float16), strict=True):
        if at < 4:
            expected[at] += update
    with pinned():
        program = jax.make_jaxpr(lambda x, i, u: x.at[i].add(u, mode="drop"))(x, index, updates)
        (y,) = simulated(program, [x, index, updates], RoundingToNearest(p))
        without = jax.make_jaxpr(lambda x, i, u: x.at[i].add(u))(x, index[:0], updates[:0])
        (same,) = simulated(without, [x, index[:0], updates[:0]], RoundingToNearest(p))
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(same, x)


def test_a_quotient_by_what_has_a_logarithm_is_rounded_as_by_that_logarithm():
    """As in the derivative of logsumexp, where everybody has the logarithm at hand: exp(x - lse)."""
    p = SHORT[0]
    x = p.rounded(np.random.default_rng(0).standard_normal(64) + 40)

    def with_logarithm(x):
        s = jnp.exp(x - 40).sum()
        return jnp.exp(x - 40) / s, 40 + jnp.log(s)

    def without(x):
        return jnp.exp(x - 40) / jnp.exp(x - 40).sum()

    def spread(f):
        program = jax.make_jaxpr(f)(x)
        runs = np.array([simulated(program, [x], _stored(p, seed))[0] for seed in range(40)])
        return runs.sum(1).std()  # an error that all have in common

    with pinned():
        assert spread(with_logarithm) > 2 * spread(without)
