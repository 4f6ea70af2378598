"""Whatever only explains a failure is guarded: where an explanation raises, a line says so, and the verdict stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from parity_tests.harness.exceptions.defects import where_of

T = TypeVar("T")


def explain(what: str, explanation: Callable[[], T], unexplained: list[str]) -> T | None:
    """The result of an explanation, which may call the candidate.

    Args:
        what: a name for it, which the report gives if it raises.
        explanation: computes it.
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
