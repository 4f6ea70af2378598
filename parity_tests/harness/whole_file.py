"""A file that is written whole or not at all: a reader, or a killed run, never finds half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path`, in one step."""
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        new.write_text(text, encoding="utf-8")
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)
