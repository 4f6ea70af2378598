"""Scores: rounding has none beyond 1, and each kind of mistake has the statistic that names it."""

from __future__ import annotations

import numpy as np
import pytest

from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.statistics.scores import (
    RUNS,
    SIGN,
    Errors,
    Score,
    _chance_of_signs,
    directions,
    scores,
    strangers,
)

P = PRECISIONS["bfloat16"]
SHAPES = [(64, 48), (3, 8, 40), (300,), (7,), ()]


def _noise(rng: np.random.Generator, s: np.ndarray, shared: float = 0.0) -> np.ndarray:
    """Rounding of a result s; with `shared` each row has a rounding in common, as by a stored factor."""
    common = rng.normal(0, shared, (*s.shape[:-1], 1)) if s.ndim else 0.0
    return P.u * s * (rng.uniform(-1, 1, s.shape) + common)


def _scores(change, seed=0, shape=(64, 48), shared=0.0, common_roundings=0) -> list[Score]:
    """Of a result whose error is rounding and what `change` adds."""
    rng = np.random.default_rng(seed)
    s = np.asarray(rng.standard_normal(shape))
    runs = [_noise(rng, s, shared) for _ in range(RUNS)]
    error = _noise(rng, s, shared) + change(s)
    return scores(Errors.of(error, runs, P.spacing(s)), {"y": s}, P, common_roundings)


def _nothing(s):
    return np.zeros_like(s)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 2.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rounding_is_never_accused(shape, shared):
    worst = [_scores(_nothing, seed, shape, shared)[0].value for seed in range(200)]
    assert max(worst) < 1


def _at(index, times):
    def change(s):
        x = np.zeros_like(s)
        x[index] = times * P.u * (np.abs(s[index]) + 0.1)
        return x

    return change


def _summand_left_out(s):
    rng = np.random.default_rng(7)
    return 3 * P.u * np.outer(rng.standard_normal(s.shape[0]), rng.standard_normal(s.shape[1]))


@pytest.mark.parametrize(
    ("change", "statistic", "index"),
    [
        pytest.param(_at((20, 30), 60), "an entry", (20, 30), id="entry"),
        pytest.param(_at((20, slice(None)), 15), "a row", (20,), id="row"),
        pytest.param(_at((slice(None), 30), 15), "a column", (30,), id="column"),
        pytest.param(_at((slice(16, 32), slice(32, 48)), 12), "a tile", (16, 32), id="tile"),
        pytest.param(_summand_left_out, "a pattern", None, id="summand left out"),
    ],
)
def test_what_is_too_large_is_found_where_it_is(change, statistic, index):
    found = {score.statistic: score for score in _scores(change) if score.value > 1}
    assert found[statistic].index == index


def test_a_factor_is_found_and_told():
    first = _scores(lambda s: 0.001 * s)[0]
    assert (first.statistic, first.term) == ("a projection", "y")
    assert first.value > 1.5
    assert abs(first.factor - 0.001) < 0.0002


def test_an_error_of_one_sign_is_found():
    found = [score for score in _scores(lambda s: P.u * np.abs(s)) if score.value > 1]
    assert SIGN in {score.term for score in found}


def test_a_common_factor_that_is_rounded_is_no_evidence():
    """As a scale that is stored in the format."""
    assert _scores(lambda s: P.u * s)[0].value > 1
    assert _scores(lambda s: P.u * s, common_roundings=1)[0].value < 1
    assert _scores(lambda s: 2 * P.u * s, common_roundings=1)[0].value > 1
    assert _scores(lambda s: 2 * P.u * s, common_roundings=2)[0].value < 1


def test_what_is_not_finite_is_left_out():
    s = np.ones((8, 8))
    runs = [np.zeros((8, 8)) for _ in range(RUNS)]
    runs[3][1, 1] = np.nan
    error = np.zeros((8, 8))
    error[1, 1], error[2, 2] = 1.0, np.inf
    assert all(score.value <= 1 for score in scores(Errors.of(error, runs, P.spacing(s)), {"y": s}, P, False))


def test_an_empty_result_has_no_scores():
    empty = np.zeros((0, 3))
    assert scores(Errors.of(empty, [empty] * RUNS, empty), {"y": empty}, P, False) == []


def _result() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((64, 48))


def _off(s: np.ndarray, relative: np.ndarray | float) -> np.ndarray:
    """How far a result that is off by so many roundings is, once rounded, from what float32 inside makes."""
    return P.rounded(s * (1 + P.u * relative)) - P.rounded(s)


def _beside(s: np.ndarray, rng: np.random.Generator, of_rows: bool, of_columns: bool, groups: int) -> np.ndarray:
    """The error of code that rounds a number for each entry, one for rows or one for each column besides."""
    own = rng.uniform(-1, 1, s.shape) * (not of_rows and not of_columns)
    rows = rng.uniform(-1, 1, (groups, 1))[np.arange(len(s)) % groups] * of_rows
    columns = rng.uniform(-1, 1, (1, s.shape[1])) * of_columns
    return _off(s, own + rows + columns)


@pytest.mark.parametrize("groups", [64, 8])
@pytest.mark.parametrize("kinds", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_what_is_rounded_besides_has_no_direction(kinds: tuple[bool, bool], groups: int):
    """Groups of rows may share the number that is rounded, as the rows of a segment share its total."""
    s, rng = np.abs(_result()), np.random.default_rng(0)
    terms = {"y": s, "s": np.random.default_rng(1).standard_normal(s.shape)}
    found = [score for _ in range(200) for score in directions(_beside(s, rng, *kinds, groups), s, terms)]
    assert {score.term for score in found} == {"y", "s", SIGN}
    assert max(score.value for score in found) < 1


def test_a_tenth_of_a_rounding_of_a_term_has_a_direction():
    s, term = _result(), np.random.default_rng(1).standard_normal((64, 48))
    error = _off(s, 0.1 * term / s)
    found = {score.term: score.value for score in directions(error, s, {"y": s, "s": term})}
    assert 0 < (error != 0).mean() < 0.25  # most entries are right to the last bit
    assert found["s"] > 1
    assert found["y"] == 0  # a factor of the result is one of many numbers that may be rounded


def _strangers(error: np.ndarray, s: np.ndarray) -> list[Score]:
    runs = [np.random.default_rng(seed).random(s.shape) < 0.6 for seed in range(3)]
    return [*strangers(error, np.abs(s), error != 0, runs, P)]


def test_a_row_that_rounds_a_factor_besides_is_no_stranger():
    """As where one of the saved numbers is not one of the format's, and all others are."""
    s = _result()
    error = np.zeros_like(s)
    error[5] = _off(s[5], 0.99)
    assert (error[5] != 0).mean() > 0.5
    assert max(score.value for score in _strangers(error, s)) < 1


def test_a_row_that_is_two_roundings_off_is_a_stranger_and_so_is_a_column():
    s = _result()
    for statistic, place in (("a row", (5, slice(None))), ("a column", (slice(None), 5))):
        error = np.zeros_like(s)
        error[place] = _off(s[place], 2.5)
        (found,) = [score for score in _strangers(error, s) if score.value > 1]
        assert (found.statistic, found.index) == (statistic, (5,))


def test_where_many_rows_have_errors_none_is_a_stranger():
    s = _result()
    error = np.where(np.arange(64)[:, None] % 2, _off(s, 3.0), 0.0)
    assert not _strangers(error, s)


def test_a_number_that_each_row_rounds_has_no_sign_of_its_own():
    """As the sum of a row, which code rounds that has the last of its terms elsewhere: the runs have no such error."""
    s, worst = np.abs(_result()), 0.0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        runs = [_noise(rng, s) for _ in range(RUNS)]
        error = 2 * P.u * s * rng.normal(0, 1, (len(s), 1))
        found = scores(Errors.of(error, runs, P.spacing(s)), {}, P, 0)
        worst = max(worst, *(score.value for score in found if score.term == SIGN))
    assert worst < 1


@pytest.mark.parametrize(("count", "chance"), [(1, 0.0), (100, -99 * np.log(2)), (1100, -np.inf)])
def test_the_chance_of_one_sign(count, chance):
    """Of more signs than float64 has a probability for, too, without a word of NumPy's."""
    assert _chance_of_signs(-np.ones(count)) == pytest.approx(chance)
