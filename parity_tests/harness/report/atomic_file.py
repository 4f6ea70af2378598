"""A file that is written whole or not at all: a reader, or a killed run, never finds half of it."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path`, in one step. A link stays a link, to the file that is replaced.

    Half a character, which UTF-8 does not have, is written as in Python and JSON: \\ud800.
    What is there and is no regular file (a device, a pipe) cannot be replaced, and is written to.

    Raises:
        OSError: it cannot be written; then a regular file is as it was.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the file at `path` by bytes; see `write_text`."""
    if is_special(path):
        _write_through(path, data)
    else:
        if is_endless_link(path):
            raise OSError(errno.ELOOP, "is a link that leads to itself; remove it, or give another name", str(path))
        _replace(Path(os.path.realpath(path)), lambda new: new.write_bytes(data))


def is_special(path: str | os.PathLike[str]) -> bool:
    """True if `path`, its links resolved, exists and is neither a regular file nor a directory."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def is_endless_link(path: str | os.PathLike[str]) -> bool:
    """True if `path` is a link that leads to itself, at once or through others: it stands for no file."""
    return os.path.islink(os.path.realpath(path))


def _replace(target: Path, write: Callable[[Path], object]) -> None:
    # Of this process and thread alone; and short, since the target's name may be as long as names can be.
    new = target.with_name(f".{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        write(new)
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)


def _write_through(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to a device or a pipe; a named pipe that nobody reads is an error, and is not waited for."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        file.write(data)
