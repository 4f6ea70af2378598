"""What rounding may do to extrema, whose values hardly change where their places do, and to booleans."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ref.aten import pooling, reductions, scans
from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded

F32 = PRECISIONS["float32"]


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def bounds_of(f: Callable, *args: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return bounded(jax.make_jaxpr(f)(*args), *args, precision=F32)


EXTREMA: dict[str, Callable] = {
    "max": lambda x: reductions.max(x, 0)[0],
    "min": lambda x: reductions.min(-x, 0)[0],
    "a pool": lambda x: pooling.max_pool1d(x[None], 5)[0, 0],
    "adaptive": lambda x: pooling.adaptive_max_pool1d(x[None], 1)[0][0, 0],
    "cummax": lambda x: scans.cummax(x, 0)[0][-1],
    "kthvalue": lambda x: scans.kthvalue(x, 5, 0)[0],
    "topk": lambda x: scans.topk(x, 1)[0][0],
    "sort": lambda x: scans.sort(x)[0][-1],
    "median": lambda x: scans.median(x[jnp.array([0, 1, 3])] * jnp.array([1.0, -1.0, 1.0]), 0)[0],
}
APART = np.array([3.0, -9.0, -7.0, 3.0 + 1e-9, -8.0])


@pytest.mark.parametrize("name", EXTREMA)
def test_the_value_at_a_near_tie_has_the_bound_of_the_entries(name: str) -> None:
    f = EXTREMA[name]
    ((value, bound),) = bounds_of(f, APART)
    assert 0 < bound < 1e-5
    assert Comparison("y", value + 1e-8, value, bound).holds
    assert not Comparison("y", value - 1e-3, value, bound).holds


@pytest.mark.parametrize("name", EXTREMA)
def test_the_derivative_at_a_near_tie_may_be_at_either_place(name: str) -> None:
    f = EXTREMA[name]
    ((value, bound),) = bounds_of(jax.grad(f), APART)
    assert np.count_nonzero(value) == 1
    other = value.copy()
    other[[0, 3]] = value[[3, 0]]
    assert Comparison("x_bar", other, value, bound).holds
    assert not Comparison("x_bar", 3 * value, value, bound).holds


@pytest.mark.parametrize("name", EXTREMA)
def test_where_nothing_is_near_a_derivative_is_exact(name: str) -> None:
    f = EXTREMA[name]
    ((value, bound),) = bounds_of(jax.grad(f), np.array([3.0, -9.0, -7.0, 3.5, -8.0]))
    assert value[3] != 0 or value[0] != 0
    assert (bound < 1e-5).all()


def test_a_near_tie_in_one_window_costs_no_other_window() -> None:
    x = np.array([1.0, 1.0 + 1e-9, 2.0, 5.0, -3.0, 4.0])
    ((value, bound),) = bounds_of(jax.grad(lambda x: pooling.max_pool1d(x[None], 2).sum()), x)
    assert np.array_equal(value, [0, 1, 0, 1, 0, 1])
    assert (bound[:2] >= 1).all()
    assert (bound[2:] < 1e-5).all()


OPERATIONS = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}


def _compared(value: bool, unsure: bool) -> tuple[float, float]:
    """Two numbers of which the first is larger or is not, surely or as rounding has it."""
    apart = 1e-9 if unsure else 1.0
    return (1.0 + apart, 1.0) if value else (1.0, 1.0 + apart)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_boolean_may_change_where_its_operands_may_and_nothing_settles_it(name: str) -> None:
    every = [*itertools.product((False, True), repeat=4)]  # two values, and whether each may change
    x, y = (np.array([_compared(row[i], row[i + 2]) for row in every]) for i in (0, 1))
    f = lambda x, y: OPERATIONS[name](x[:, 0] > x[:, 1], y[:, 0] > y[:, 1])  # noqa: E731
    ((value, bound),) = bounds_of(f, x, y)
    for row, result, may in zip(every, value, bound, strict=True):
        a, b = (((row[i],) if not row[i + 2] else (False, True)) for i in (0, 1))
        reached = {bool(OPERATIONS[name](p, q)) for p in a for q in b}
        assert bool(result) in reached
        assert (may > 0.5) == (len(reached) > 1), row
        assert may < 1.1


@pytest.mark.parametrize("reduce", [jnp.any, jnp.all])
def test_of_many_booleans_only_the_rows_that_rounding_may_change(reduce: Callable) -> None:
    rows = [[(True, False), (False, True)], [(False, False), (False, True)], [(True, False), (True, True)]]
    x = np.array([[_compared(*one) for one in row] for row in rows])
    ((_, bound),) = bounds_of(lambda x: reduce(x[..., 0] > x[..., 1], axis=1), x)
    assert (bound > 0.5).tolist() == ([0, 1, 0] if reduce is jnp.any else [1, 0, 1])
