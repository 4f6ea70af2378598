"""One-line descriptions of unexpected exceptions, with the traceback kept in a file."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import traceback

_LONGEST = 10_000  # characters of a message
_LONGEST_LINE = 2000
# The variables that a framework may refuse, by the end of the name of the file that does; and the remedy.
_REFUSED: dict[tuple[str, ...], tuple[str, str]] = {
    ("jax", "_src", "xla_bridge.py"): ("JAX_PLATFORMS", "set it to platforms that are here, such as cpu or cuda,cpu"),
    ("torch", "_logging", "_internal.py"): ("TORCH_LOGS", "set it to logs that PyTorch has, such as recompiles"),
}
_TOO_FEW_FILES = "this run needs more open files than it may have; raise the limit, such as by: ulimit -n 1024"


def one_line_description(error: BaseException) -> str:
    """Describe an exception in one line: its type, its message, where it was raised, and a file with its traceback.

    If the environment is the cause, the line names that and the remedy, and there is no file.
    """
    cause = cause_in_environment(error)
    if cause is not None:
        return cause
    lines = "".join(traceback.format_exception(error))
    file = _kept(lines)
    return f"{where_of(error)}; " + (f"its traceback: {file}" if file else _in_a_line(lines))


def cause_in_environment(error: BaseException) -> str | None:
    """Return the limit or the variable that makes an exception, with the remedy; None for any other exception."""
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return _TOO_FEW_FILES
    frames = traceback.extract_tb(error.__traceback__)
    file = tuple(frames[-1].filename.split(os.sep)[-3:]) if frames else ()
    name, remedy = _REFUSED.get(file, ("", ""))
    if not os.environ.get(name):
        return None
    return f"{name}={os.environ[name]} is refused; unset it, or {remedy} ({where_of(error)})"


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
