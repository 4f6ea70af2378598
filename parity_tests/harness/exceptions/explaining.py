"""A guard for code that only explains a failure: if it raises, the report notes this, and the verdict stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from parity_tests.harness.exceptions.defects import where_of

T = TypeVar("T")


def explain(what: str, explanation: Callable[[], T], unexplained: list[str]) -> T | None:
    """Return the result of an explanation, or None if it raises.

    Args:
        what: the name of the explanation, which the report gives if it raises.
        explanation: computes the result; it may call the candidate.
        unexplained: gets a line if it raises anything but KeyboardInterrupt; then the result is None.
    """
    try:
        return explanation()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(), too
        line = f"{what} failed: {where_of(error)}"
        unexplained.extend([line] if line not in unexplained else [])
        return None
