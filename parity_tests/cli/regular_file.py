"""Why a path that somebody has given is no file to be read."""

from __future__ import annotations

from pathlib import Path


def why_no_file(path: Path) -> str:
    """Return what a path is that is no regular file, with a remedy where there is one; "" if it is one."""
    if path.is_file():
        return ""
    if path.is_dir():
        return "is a directory; give a file"
    return "is not a regular file; give one that can be read again" if path.exists() else "no such file"
