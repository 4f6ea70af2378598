"""One-sided slopes: of smooth functions, at kinks, where there is none; in float64 and with hundreds of bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.suite.harness.extended.test_slopes import of_bits
from parity_tests.sweep.witnesses import by_differences


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def of_floats(f: Callable[[float], float], x: float) -> Slopes:
    def along(t: float) -> float:
        with np.errstate(all="ignore"):
            return float(f(np.float64(x + t)))

    return by_differences(along, abs(x) or 1.0, "by hand")


@pytest.mark.parametrize(
    ("f", "slope", "x"),
    [
        (np.sin, np.cos, 0.7),
        (np.exp, np.exp, -30.0),
        (lambda x: x**3, lambda x: 3 * x**2, 1e100),
        (np.log, lambda x: 1 / x, 1e-200),
        (lambda x: 3.0 + 0 * x, lambda x: 0.0, 1.0),
    ],
)
def test_differences_of_smooth_functions(f, slope, x):
    found = of_floats(f, x)
    assert found.smooth
    assert abs(found.high - slope(x)) <= found.error <= 1e-7 * abs(slope(x)) + 1e-7 * abs(f(x)) / abs(x)


@pytest.mark.parametrize("of", [of_floats, of_bits])
def test_a_kink_has_two_slopes(of):
    found = of(lambda x: abs(x) + 2 * x, 0.0)
    assert not found.smooth
    assert (found.behind, found.ahead) == pytest.approx((1.0, 3.0), abs=1e-9)


@pytest.mark.parametrize(("of", "root"), [(of_floats, np.sqrt), (of_bits, jnp.sqrt)])
def test_at_the_end_of_a_domain_one_side_counts_and_an_infinite_slope_is_told(of, root):
    found = of(root, 0.0)
    assert math.isnan(found.behind)
    assert math.isinf(found.ahead)
    assert not found.known
    assert of(lambda x: root(x) ** 3, 0.0).ahead == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("of", [of_floats, of_bits])
def test_nothing_is_known_where_the_function_is_not_finite(of):
    found = of(lambda x: 1 / x, 0.0)
    assert not found.known


def test_hundreds_of_bits_see_what_cancels():
    found = of_bits(lambda x: 1 - jnp.tanh(x) ** 2, 20.0)
    right = -2 * math.sinh(20) / math.cosh(20) ** 3
    assert found.high == pytest.approx(right, rel=1e-15)
    assert abs(of_floats(lambda x: 1 - np.tanh(x) ** 2, 20.0).high - right) > 1e-3 * abs(right)


def test_a_slope_that_grows_with_the_logarithm_of_the_step_is_infinite():
    slopes = of_floats(lambda x: x * np.log(abs(x)) if x else 0.0, 0.0)
    assert math.isinf(slopes.ahead)
    assert math.isinf(slopes.behind)
    assert not slopes.known


@pytest.mark.parametrize("phase", [0.0, 0.3, 1.0])
def test_a_slope_that_grows_slowly_is_infinite_and_one_that_converges_slowly_is_not(phase):
    def power(exponent: float) -> Callable[[float], float]:
        return lambda x: abs(x) ** exponent * np.cos(0.27 * np.log(abs(x)) + phase) if x else 0.0

    assert math.isinf(of_floats(power(0.85), 0.0).ahead)
    assert of_floats(power(1.5), 0.0).ahead == pytest.approx(0, abs=1e-3)
    for f, slope in ((np.sin, 1.0), (lambda x: 3 * x + x * x, 3.0), (np.expm1, 1.0), (abs, 1.0)):
        assert of_floats(f, 0.0).ahead == pytest.approx(slope, abs=1e-6)
