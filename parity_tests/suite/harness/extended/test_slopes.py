"""One-sided slopes with hundreds of bits: at kinks, jumps, tiny numbers, and where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.harness.extended.slopes import Slopes, can_be_exact, exact_slopes


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def of_bits(f: Callable, x: float) -> Slopes:
    program = jax.make_jaxpr(lambda x: (f(x),))(jnp.zeros(1))
    assert can_be_exact(program)
    one = [np.ones(1)]
    return exact_slopes(program, [np.array([x])], one, one, abs(x) or 1.0)


def test_a_logarithmic_slope_is_no_limit():
    assert math.isinf(of_bits(lambda x: x * jnp.log(jnp.abs(x) + (x == 0)), 0.0).ahead)


def test_a_function_in_pieces_that_fit_to_rounding_has_no_jump():
    found = of_bits(lambda x: jnp.where(x == 0, 0.5 + 2.0**-52, 0.5 + x), 0.0)
    assert not found.known
    assert not math.isinf(found.ahead)
    assert math.isinf(of_bits(lambda x: jnp.where(x == 0, 0.75, 0.5 + x), 0.0).ahead)


def test_complex_numbers_have_no_extended_precision():
    assert not can_be_exact(jax.make_jaxpr(jnp.sin)(jnp.zeros(1, complex)))


def test_with_many_bits_a_slope_of_0_is_known_up_to_what_the_step_makes():
    slopes = of_bits(lambda x: x * x * x, 0.0)
    assert 0 < abs(slopes.ahead) <= slopes.error < 1e-90


@pytest.mark.parametrize("x", [1e-300, 1e300])
def test_a_step_in_a_tiny_number_is_seen_beside_a_value_of_another_size(x):
    assert of_bits(lambda y: 1e300 + 3 * y, x).high == pytest.approx(3.0, rel=1e-15)
