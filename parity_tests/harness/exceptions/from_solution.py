"""The exceptions by which a solution's process ends a call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# By which an operator says that an axis must not be empty; kernel files assert it, or divide by the number of rows.
REFUSALS = (RuntimeError, ValueError, IndexError, AssertionError, ZeroDivisionError)
_KINDS: Mapping[str, type[Exception]] = {kind.__name__: kind for kind in REFUSALS}
_MOST = 4000  # characters of a text


class FromSolution(Exception):
    """An exception that comes out of a solution's process: it is the candidate's, and never a refusal.

    Attributes:
        place: where in the solution it was raised: "at solution.py:12, in forward"; empty if that is not known.
        line: the line in the solution's own file, if that is known.
        missing: whether the file does not define the name.
        made: whether it was raised while an object of the class was made, and not while the file was run.
    """

    place: str = ""
    line: int | None = None
    missing: bool = False
    made: bool = False


class NoAnswer(FromSolution):
    """Raised when the process has ended, does not answer in time, or has answered something that is no result."""


def as_error(described: Any) -> FromSolution:
    """Return the exception that a process describes; whatever it says of it, it is one of this module.

    It is also one of those by which an axis may be refused, such as a ValueError, if the solution has raised one, and
    has the name of its type.
    """
    facts = described if isinstance(described, dict) else {}
    name, kind, message, place = (_text(facts, key) for key in ("type", "kind", "message", "place"))
    bases = (FromSolution, _KINDS[kind]) if kind in _KINDS else (FromSolution,)
    made = type(name if re.fullmatch(r"[^\W\d]\w{0,79}", name) else "Exception", bases, {"__module__": "builtins"})
    error = made(message)
    error.place = place.splitlines()[0] if place.strip() else ""
    line = facts.get("line")
    error.line = line if type(line) is int and 0 <= line < 10**7 else None
    error.missing, error.made = facts.get("missing") is True, facts.get("made") is True
    return error


def _text(facts: Mapping[str, Any], key: str) -> str:
    text = facts.get(key)
    return text[:_MOST] if isinstance(text, str) else ""
