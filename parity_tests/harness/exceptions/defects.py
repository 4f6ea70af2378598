"""One-line descriptions of unexpected exceptions, with the traceback kept in a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback

_LONGEST = 10_000  # characters of a message
_LONGEST_LINE = 2000


def one_line_description(error: BaseException) -> str:
    """Describe an exception in one line: its type, its message, where it was raised, and a file with its traceback."""
    lines = "".join(traceback.format_exception(error))
    file = _kept(lines)
    return f"{where_of(error)}; " + (f"its traceback: {file}" if file else _in_a_line(lines))


def message_of(error: BaseException) -> str:
    """An exception's message, whatever the `__str__` of its class does, and cut to `_LONGEST` characters."""
    try:
        return str(error)[:_LONGEST]
    except Exception:
        return "its message cannot be printed"


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, cut to `_LONGEST_LINE` characters."""
    line = next(iter(message_of(error).strip().splitlines()), "")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def where_of(error: BaseException) -> str:
    """An exception's type and first line, and the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def _kept(text: str) -> str | None:
    """Write the text to a new temporary file and return its name, or None if no file can be written."""
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(prefix="gradparity-", suffix=".txt", text=True)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return name
    return None


def _in_a_line(text: str) -> str:
    """The last lines of a traceback, joined into one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-6:-1])
