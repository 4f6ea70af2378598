"""The bounds of long sums, of which some terms are equal, or as good as equal: right code meets them in any order."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.formats import (
    CHANCE_OF_AN_ALARM,
    LAMBDA,
    PRECISIONS,
    SUMS_OF_A_REPORT,
)
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.bound.terms import equal_pairs, most_equal
from parity_tests.harness.rounding.analysis import bounded

F32, BF16 = PRECISIONS["float32"], PRECISIONS["bfloat16"]
K = 4096


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def compared(f: Callable, args: list[np.ndarray], y: np.ndarray | float) -> Comparison:
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=F32)
    return Comparison("y", np.asarray(y, np.float64), value, bound)


def in_turn(terms: np.ndarray) -> np.ndarray:
    """The sums of rows in float32, one term after another."""
    return np.cumsum(terms.astype(np.float32), -1, dtype=np.float32)[..., -1].astype(np.float64)


def independent(terms: np.ndarray) -> np.ndarray:
    """A bound of sums of terms that all differ."""
    magnitude = np.abs(terms).sum(-1)
    return (3 + min(terms.shape[-1], LAMBDA * math.sqrt(terms.shape[-1]))) * F32.u * magnitude


def equal(rng: np.random.Generator) -> np.ndarray:
    return F32.rounded(np.repeat(rng.uniform(0.5, 1, (40, 1)), K, 1))


def of_three_values(rng: np.random.Generator) -> np.ndarray:
    return F32.rounded(np.take_along_axis(rng.uniform(0.5, 1, (40, 3)), rng.integers(0, 3, (40, K)), 1))


def nearly_equal(rng: np.random.Generator) -> np.ndarray:
    """Which differ, but by less than the spacing of their sum: as the values of a softmax of small numbers do."""
    return F32.rounded(rng.uniform(0.5, 1, (40, 1)) + 1e-5 * rng.standard_normal((40, K)))


def lost_beside_one(rng: np.random.Generator) -> np.ndarray:
    terms = 3 * rng.random((40, K))
    terms[:, 0] = 1e8
    return F32.rounded(terms)


@pytest.mark.parametrize("drawn", [equal, of_three_values, nearly_equal, lost_beside_one])
def test_roundings_of_equal_terms_add_up(drawn: Callable[[np.random.Generator], np.ndarray]):
    exceeded = 0.0
    for seed in range(5):
        terms = drawn(np.random.default_rng(seed))
        y = in_turn(terms)
        comparison = compared(lambda x: x.sum(-1), [terms], y)
        assert comparison.holds, seed
        assert comparison.error_over_bound > 1 / 16  # so that what is not much worse is noticed
        exceeded = max(exceeded, float(np.max(comparison.error / independent(terms))))
    assert exceeded > 1  # so that this was an alarm


def test_the_square_root_is_left_to_terms_that_differ():
    worst = 0.0
    for seed in range(5):
        terms = F32.rounded(np.random.default_rng(seed).random((40, K)))
        ((_, bound),) = bounded(jax.make_jaxpr(lambda x: x.sum(-1))(terms), terms, precision=F32)
        worst = max(worst, float(np.max(bound / independent(terms))))
    assert worst < 1.2


ONES, DISTINCT = np.full((3, K), 0.7), np.random.default_rng(0).random((3, K))


def own(f: Callable, *args: np.ndarray) -> float:
    """How many roundings of the whole a sum of positive products is charged at most, besides that of its result."""
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=F32, inputs=0)
    return float(np.max(bound / value)) / F32.u - 1


@pytest.mark.parametrize(
    ("f", "args", "equal"),
    [
        pytest.param(lambda a, b: a @ b.T, (ONES, ONES), True, id="matmul of equals"),
        pytest.param(lambda a, b: a @ b.T, (ONES, DISTINCT), False, id="matmul with weights of 1"),
        pytest.param(lambda a, b: a @ b.T, (DISTINCT, ONES), False, id="matmul by ones"),
        pytest.param(lambda a, b: jnp.einsum("ik,ik->i", a, b), (ONES, ONES), True, id="batched"),
        pytest.param(lambda a: jnp.cumsum(a, 1), (ONES,), True, id="cumsum of equals"),
        pytest.param(lambda a: jnp.cumsum(a, 1), (DISTINCT,), False, id="cumsum"),
        pytest.param(
            lambda a, b: lax.conv(a.reshape(1, 3, 64, 64), b.reshape(1, 3, 64, 64), (1, 1), "VALID"),
            (ONES, ONES),
            True,
            id="convolution of equals",
        ),
        pytest.param(
            lambda a, b: lax.conv(a.reshape(1, 3, 64, 64), b.reshape(1, 3, 64, 64), (1, 1), "VALID"),
            (DISTINCT, ONES),
            False,
            id="convolution by ones",
        ),
        pytest.param(
            lambda a: jnp.zeros(3).at[jnp.repeat(jnp.arange(3), K)].add(a.ravel()), (ONES,), True, id="scatter-add"
        ),
        pytest.param(
            lambda a: jnp.zeros(3).at[jnp.repeat(jnp.arange(3), K)].add(a.ravel()), (DISTINCT,), False, id="scattered"
        ),
    ],
)
def test_every_sum_knows_equal_terms(f: Callable, args: tuple[np.ndarray, ...], equal: bool):
    terms = 3 * K if "conv_general" in str(jax.make_jaxpr(f)(*args)) else K
    roundings = own(f, *args)
    assert roundings > 0.9 * terms if equal else roundings < 2 * LAMBDA * math.sqrt(terms)


def test_pairs_are_counted():
    x = np.array([[1.0, 1.0, 2.0] * 20, np.arange(60) + 1.0, [0.0] * 60])
    assert equal_pairs(x, (1,), F32.u).tolist() == [[40**2 + 20**2], [60], [60]]
    assert equal_pairs(x.T, (0,), F32.u).shape == (1, 3)
    assert equal_pairs(np.zeros((0, 60)), (1,), F32.u).shape == (0, 1)
    assert equal_pairs(1j * x, (1,), F32.u)[0] == 40**2 + 20**2
    assert most_equal(x, F32.u) == 41  # 1 occurs in the second row, too
    assert most_equal(np.zeros(3), F32.u) == 1


def test_the_chance_of_an_alarm_in_a_whole_report_is_as_stated():
    assert 2 * SUMS_OF_A_REPORT * math.exp(-(LAMBDA**2) / 2) == pytest.approx(CHANCE_OF_AN_ALARM)
    assert CHANCE_OF_AN_ALARM <= 1e-3
