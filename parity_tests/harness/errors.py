"""An exception in one line: its type, its message, and where it was raised."""

from __future__ import annotations

import traceback


def where_of(error: BaseException) -> str:
    """An exception's type and first line, and the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (at {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def first_line(error: BaseException) -> str:
    """The first line of an exception's message."""
    try:
        text = str(error)
    except Exception:  # somebody's own __str__ may raise
        return "its message cannot be printed"
    return next(iter(text.strip().splitlines()), "")
