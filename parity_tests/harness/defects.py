"""An exception that nobody has expected: told in a line, which names a file with its traceback."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback

_LONGEST = 10_000  # characters of a message


def told_in_full(error: BaseException) -> str:
    """An exception in one line: its type, its message, where it was raised, and the file that has the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    lines = "".join(traceback.format_exception(error))
    file = _kept(lines)
    message = next(iter(message_of(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {message}{where}; " + (f"its traceback: {file}" if file else _in_a_line(lines))


def message_of(error: BaseException) -> str:
    """An exception's message, whatever the `__str__` of its class does, and cut where nobody reads on."""
    try:
        return str(error)[:_LONGEST]
    except Exception:
        return "its message cannot be printed"


def _kept(text: str) -> str | None:
    """The name of a new file with this text; None if there can be none."""
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(prefix="gradparity-", suffix=".txt", text=True)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return name
    return None


def _in_a_line(text: str) -> str:
    """For want of a file: the last calls."""
    return " | ".join(line.strip() for line in text.splitlines()[-6:-1])
