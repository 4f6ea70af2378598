"""The signs of shortcuts that a solution's process gives, in words. It could forge them, and none of the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parity_tests.harness.solutions.proxy import Solution

_LONGEST = 200  # characters of a name


def signs_of(solution: Solution) -> list[str]:
    """Return what the solution has done since the last time, each as a predicate: "calls the reference's ...".

    Raises:
        FromSolution: its process ends, or gives no answer.
    """
    facts = solution.process.facts()
    signs = [f"calls the reference's {name}" for name in _names(facts.get("calls"))[:1]]
    replaced = _names(facts.get("replaced"))
    if replaced:
        signs.append(f"replaces {', '.join(replaced)} by functions of its own")
    if facts.get("lost") is True:
        signs.append("switches off the profile function that looks for calls of the reference")
    if isinstance(facts.get("modes"), int) and facts["modes"] > 0:
        signs.append("leaves a mode entered that changes PyTorch's functions")
    settings = _names(facts.get("settings"))
    if settings:
        signs.append(f"leaves PyTorch with settings of its own: {', '.join(settings)}")
    return signs


def _names(found: Any) -> list[str]:
    return list(_texts(found)) if isinstance(found, list) else []


def _texts(found: list[Any]) -> Iterator[str]:
    for text in found:
        if isinstance(text, str):
            yield " ".join(text.split())[:_LONGEST]
