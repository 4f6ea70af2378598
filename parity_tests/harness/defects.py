"""An exception that nobody has expected: told in a line, which names a file with its traceback."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback


def told_in_full(error: BaseException) -> str:
    """An exception in one line: its type, its message, where it was raised, and the file that has the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    lines = "".join(traceback.format_exception(error))
    file = _kept(lines)
    message = next(iter(_text(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {message}{where}; " + (f"its traceback: {file}" if file else _in_a_line(lines))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # somebody's own __str__ may raise
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
