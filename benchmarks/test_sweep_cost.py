"""The cost of a sweep is read off its lines."""

from __future__ import annotations

import pytest

from benchmarks.sweep_cost import by_work, cost
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.results_file import Header, Results


def results(*work: int) -> Results:
    """Operators with so much work, in two lines each, that take 2 s and a hundredth of a second a unit."""
    lines = {
        f"op{i}": [Line(f"op{i}", "vjp", of, "float64", Verdict.AGREES, w // 2, seconds=1 + w / 200) for of in "ab"]
        for i, w in enumerate(work)
    }
    return Results(Header.of(["vjp"], ["float64"], Limits()), lines)


def test_a_linear_cost_is_found() -> None:
    found = cost(results(2, 20, 200, 2000))
    assert found.of_operator == pytest.approx(2)
    assert found.of_unit == pytest.approx(0.01)
    assert found.work == 2222
    assert found.seconds == pytest.approx(8 + 22.22)
    assert [row[:2] for row in by_work(results(2, 3, 20))] == [(4, 2), (64, 1)]


def test_two_operators_are_too_few() -> None:
    with pytest.raises(ValueError, match="2 operators were compared"):
        cost(results(2, 20))
