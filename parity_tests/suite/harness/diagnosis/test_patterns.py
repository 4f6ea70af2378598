"""Which entries of a result are wrong: every pattern, and none where it may be an accident."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from parity_tests.harness.diagnosis.patterns import pattern
from parity_tests.harness.findings import Comparison
from parity_tests.suite.harness._ops import normal


def patterns(wrong: np.ndarray, **named: np.ndarray) -> str:
    """The pattern of a comparison that is off in these entries, without the count."""
    oracle = 1 + np.abs(normal(*wrong.shape, seed=5))
    comparison = Comparison("x_bar", oracle + wrong, oracle, np.full(wrong.shape, 1e-12))
    text = pattern(comparison, {name: (x, np.full(x.shape, 1e-12)) for name, x in named.items()})
    count = f"{wrong.sum()}/{wrong.size} entries wrong"
    assert text.startswith(count)
    return text.removeprefix(count)


def at(shape: tuple[int, ...], f: Callable[..., np.ndarray]) -> np.ndarray:
    """The entries whose indices satisfy f."""
    return np.broadcast_to(f(*np.indices(shape)), shape)


ROWS = [
    ((4, 5), lambda i, j: i < 9, ""),
    ((4, 5), lambda i, j: i == 1, ", all in rows 1 of 4"),
    ((4, 5), lambda i, j: (i > 0) & (i < 3), ", all in rows 1 to 2 of 4"),
    ((4, 5), lambda i, j: (j == 0) | (j == 3), ", all in columns 0, 3 of 5"),
    ((33, 2), lambda i, j: i >= 32, ", all in rows 32 of 33, beyond the last whole block of 16 or 32"),
    ((39,), lambda i: i >= 32, ", all in rows 32 to 38 of 39, beyond the last whole block of 16 or 32"),
    ((2, 300), lambda i, j: j >= 256, ", all in columns 256 to 299 of 300, beyond the last whole block of 64 or 128"),
    ((33, 2), lambda i, j: i >= 31, ", all in rows 31 to 32 of 33"),
    ((60, 2), lambda i, j: (i == 31) | (i == 32), ", all in rows 31 to 32 of 60"),
    ((64, 2), lambda i, j: i >= 48, ", all in rows 48 to 63 of 64"),
    ((70, 2), lambda i, j: (i == 31) | (i == 63), ", exactly the rows that are the last of a block of 32"),
    (
        (70, 2),
        lambda i, j: (i == 32) | (i == 64),
        ", exactly the rows that are the first of a block, but for the first block, of 32",
    ),
    (
        (70, 2),
        lambda i, j: (i % 32 == 0) & (i > 0) | (i % 32 == 31),
        ", exactly the rows that are the borders between blocks of 32",
    ),
    ((70, 9), lambda i, j: i % 9 == j, ""),
    ((30, 2), lambda i, j: i % 4 == 0, ""),  # eight rows are too many to list, and are no run
]
SQUARE = [
    (lambda i, j: i == j, "exactly the diagonal"),
    (lambda i, j: i != j, "exactly the entries off the diagonal"),
    (lambda i, j: i > j, "exactly the entries below the diagonal"),
    (lambda i, j: i < j, "exactly the entries above the diagonal"),
    (lambda i, j: i >= j, "exactly the lower triangle, with the diagonal"),
    (lambda i, j: i <= j, "exactly the upper triangle, with the diagonal"),
    (lambda i, j: (i == 0) | (j == 0) | (i == 4) | (j == 4), "exactly the border of the matrix"),
]


@pytest.mark.parametrize(("shape", "f", "text"), ROWS)
def test_rows(shape, f, text):
    assert patterns(at(shape, f)) == text


@pytest.mark.parametrize(("f", "text"), SQUARE)
def test_parts_of_a_square(f, text):
    wrong = at((5, 5), f)
    assert patterns(wrong) == f", {text}"
    for nearly in (wrong.copy(), wrong.copy()):
        nearly[2, 2] ^= True
        assert text not in patterns(nearly)


def test_the_entries_that_cannot_be_told_may_be_either():
    oracle, bound = normal(5, 5), np.full((5, 5), 1e-12)
    oracle[3, 3], bound[1, 1] = 0, np.inf  # what is a factor of 0, or has no bound
    comparison = Comparison("x_bar", oracle * (1 + np.eye(5)), oracle, bound)
    assert pattern(comparison) == "3/25 entries wrong, exactly the diagonal"


def test_the_zeros_of_an_argument():
    x = normal(5, 6) * (normal(5, 6, seed=1) > -0.5)
    assert patterns(x == 0, x=x, y=normal(5, 6, seed=2)) == ", exactly where x = 0"


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: x < 0, ", exactly where x < 0"),
        (lambda x: x > 0, ", exactly where x > 0"),
        (lambda x: x > 0.5, ", exactly where x >= 0.540846 (elsewhere <= 0.411631)"),
        (lambda x: x < -0.5, ", exactly where x <= -0.535669 (elsewhere >= -0.457726)"),
        (lambda x: abs(x) > 0.7, ", exactly where |x| >= "),
        (lambda x: abs(x) < 0.6, ", exactly where |x| <= "),
    ],
)
def test_where_an_argument_is(f, text):
    x = normal(6, 6)
    assert patterns(f(x), x=x, other=normal(6, 6, seed=3), column=normal(6)).startswith(text)
    nearly = f(x).copy()
    nearly[2, 2] ^= True
    assert text not in patterns(nearly, x=x)


def test_where_an_output_is_saturated():
    y = np.tanh(30 * normal(6, 6))
    saturated = 1 - np.abs(y) <= 1e-12
    text = ", exactly where y is saturated: within rounding of its extremes"
    assert patterns(saturated, x=normal(6, 6, seed=4), y=y) == text
    assert patterns(~saturated, y=y) != text


def test_ties():
    x = normal(6, 6)
    x[1, 4], x[2, 5], x[4, 0] = x[1, 0], x[2, 2], x[4, 1]
    tied = np.zeros((6, 6), bool)
    tied[[1, 1, 2, 2, 4, 4], [0, 4, 2, 5, 0, 1]] = True
    assert patterns(tied, x=x) == ", exactly where x has an equal along axis 1"


def test_what_may_be_an_accident_is_not_said():
    """Two of four entries are the negative ones once in six times."""
    x = np.array([1.0, -2.0, -3.0, 4.0])
    assert patterns(x < 0, x=x) == ", all in rows 1 to 2 of 4"
    rng, said = np.random.default_rng(0), 0
    for _ in range(300):
        wrong = np.zeros(15, bool)
        wrong[rng.choice(15, 7, replace=False)] = True
        named = {name: rng.standard_normal(15) for name in "xyzw"}
        said += "exactly" in patterns(wrong, **named)
    assert said <= 300 / 50


def test_a_limit_between_numbers_that_differ_in_the_last_digits():
    x = np.random.default_rng(0).permutation(1 + np.arange(40) * 1e-9)
    assert patterns(x > 1 + 19.5e-9, x=x) == ", exactly where x >= 1.000000020 (elsewhere <= 1.000000019)"
