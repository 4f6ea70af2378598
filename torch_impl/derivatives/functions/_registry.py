"""The functions of FunctionsManual.cpp that are written in Python here, by their C++ names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MANUAL: dict[str, Callable[..., Any]] = {}


def manual(function: F) -> F:
    """Make a function callable from formulas, by its own name."""
    if function.__name__ in MANUAL:
        raise ValueError(f"{function.__name__} is written twice")
    MANUAL[function.__name__] = function
    return function
