"""Which cases of a parametrized test are slow."""

from __future__ import annotations

import pytest

from parity_tests.suite.marks import fast, mark_slow, slow_after


@fast("[a]-1", "b-*")
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("letter", ["[a]", "b"])
def test_the_cases_that_are_named_are_fast(request: pytest.FixtureRequest, letter: str, number: int) -> None:
    is_slow = request.node.get_closest_marker("slow") is not None
    assert is_slow == ((letter, number) == ("[a]", 2))


@pytest.mark.parametrize("letter", ["a"])
def test_an_id_that_no_case_has_is_an_error(request: pytest.FixtureRequest, letter: str) -> None:
    request.node.add_marker(fast("a", "b"))
    with pytest.raises(pytest.Collector.CollectError, match=r"test_an_id_.*: no case is 'b'; there are a"):
        mark_slow([request.node])


@pytest.mark.parametrize(("letter", "number"), slow_after(1, [("a", 1), ("b", 2)]))
def test_the_cases_after_the_first_ones_are_slow(request: pytest.FixtureRequest, letter: str, number: int) -> None:
    assert (request.node.get_closest_marker("slow") is not None) == (number > 1), letter
