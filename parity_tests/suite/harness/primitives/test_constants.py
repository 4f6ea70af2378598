"""Which numbers floats stand for, and which are taken as they are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from parity_tests.harness.primitives.field.constants import Constant, recognized


@pytest.mark.parametrize(
    ("x", "constant", "text"),
    [
        (0.0, Constant(Fraction(0)), "0"),
        (-0.5, Constant(Fraction(-1, 2)), "-1/2"),
        (0.044715, Constant(Fraction(8943, 200000)), "8943/200000"),
        (1e-5, Constant(Fraction(1, 100000)), "1/100000"),
        (2.5e-20, Constant(Fraction(1, 4 * 10**19)), f"1/{4 * 10**19}"),
        (1 / 3, Constant(Fraction(1, 3)), "1/3"),
        (math.sqrt(2 / math.pi), Constant(Fraction(2), 2, -1), "sqrt(2) / sqrt(π)"),
        (math.sqrt(2) * 2 / math.sqrt(math.pi) * 0.5, Constant(Fraction(2), 2, -1), "sqrt(2) / sqrt(π)"),
        (-1 / math.sqrt(8), Constant(Fraction(1, 8), 2, 0, True), "-sqrt(1/8)"),
        (80**-0.25, Constant(Fraction(1, 80), 4), "sqrt(sqrt(1/80))"),
        (2 * math.pi, Constant(Fraction(2), 1, 2), "2 π"),
        (math.log(2), Constant(Fraction(1), logs=1), "log(2)"),
        (-math.log(2) / 3, Constant(Fraction(1, 3), 1, 0, True, 1), "-1/3 log(2)"),
        (1 / math.log(10), Constant(Fraction(1), logs=-1, base=10), "1 / log(10)"),
    ],
)
def test_what_is_recognized(x: float, constant: Constant, text: str) -> None:
    assert recognized(x) == constant
    assert str(constant) == text


@pytest.mark.parametrize("x", [np.nextafter(1 / 3, 1), 0.1 + 2**-50, math.sqrt(2) * (1 + 2**-49), math.log(3)])
def test_others_are_the_float_that_they_are(x: float) -> None:
    found = recognized(float(x))
    assert found.is_rational
    assert found.rational == Fraction(float(x))


def test_random_floats_stand_for_nothing() -> None:
    """Of the weights of a module none is taken for another number."""
    for x in np.random.default_rng(0).standard_normal(2_000):
        found = recognized(float(x))
        assert found == Constant(Fraction(float(x))), (x, str(found))
