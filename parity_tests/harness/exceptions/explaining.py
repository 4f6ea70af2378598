"""A guard for code that only explains a failure: if it raises, the report notes this, and the verdict stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from parity_tests.harness.exceptions.defects import where_of

T = TypeVar("T")


@dataclass(frozen=True)
class Explained(Generic[T]):
    """A result, and a line for each explanation that raised an exception while it was made."""

    value: T
    unexplained: tuple[str, ...] = ()


def explain(what: str, explanation: Callable[[], T]) -> Explained[T | None]:
    """Return the result of an explanation; None, with a line that says why, if it raises.

    Args:
        what: the name of the explanation, which the report gives if it raises.
        explanation: computes the result; it may call the candidate. Anything that it raises is caught, apart from
            KeyboardInterrupt.
    """
    try:
        return Explained(explanation())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(), too
        return Explained(None, (f"{what} failed: {where_of(error)}",))


def unexplained(*parts: Explained) -> tuple[str, ...]:
    """The lines of several results, each line once."""
    return tuple(dict.fromkeys(line for part in parts for line in part.unexplained))
