"""Parameters of a test of which a few are judged with the fast tests, and all with the slow ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any

import pytest


def marks(fast: Collection[str], every: Iterable[str]) -> list:
    """Every name, those that are not fast marked as slow."""
    every = list(every)
    assert set(fast) <= set(every), f"no case is {', '.join(sorted(set(fast) - set(every)))}"
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in every]


def slow_after(count: int, every: Iterable[Any]) -> list:
    """The cases of a test, a tuple for several parameters; those after the first `count` are slow."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if i < count else pytest.mark.slow)
        for i, case in enumerate(every)
    ]


def fast(*ids: str) -> pytest.MarkDecorator:
    """Of a parametrized test's cases those with these ids stay fast, the others are slow; * stands for any text.

    An id that no case has is an error at collection. For tests with several parameters, where `marks` of each would say
    it less directly.
    """
    return pytest.mark.fast(*ids)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """The cases of a test that its `fast` does not name are slow."""
    made = yield
    if isinstance(made, list):
        mark_slow([item for item in made if isinstance(item, pytest.Function)])
    return made


def mark_slow(cases: Sequence[pytest.Function]) -> None:
    """Mark as slow those of a test's cases that its `fast` does not name."""
    mark = cases[0].get_closest_marker("fast") if cases else None
    if mark is None:
        return
    named = {pattern: [case for case in cases if _fits(case.callspec.id, pattern)] for pattern in mark.args}
    for pattern, found in named.items():
        if not found:
            ids = ", ".join(case.callspec.id for case in cases)
            raise pytest.Collector.CollectError(f"{cases[0].originalname}: no case is {pattern!r}; there are {ids}")
    for case in cases:
        if not any(case in found for found in named.values()):
            case.add_marker(pytest.mark.slow)


def _fits(case: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), case) is not None
