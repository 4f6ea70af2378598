"""A file that is written whole or not at all: a reader, or a killed run, never finds half of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path`, in one step."""
    _write(path, lambda new: new.write_text(text, encoding="utf-8"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Likewise."""
    _write(path, lambda new: new.write_bytes(data))


def _write(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        write(new)
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)
