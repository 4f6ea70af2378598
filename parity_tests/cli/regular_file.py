"""Why a path that somebody has given is no file to be read."""

from __future__ import annotations

from pathlib import Path

from parity_tests.harness.names import nearest


def why_no_file(path: Path) -> str:
    """Return what a path is that is no regular file, with a remedy where there is one; "" if it is one."""
    if path.is_file():
        return ""
    if path.is_dir():
        return "is a directory; give a file"
    if path.exists():
        return "is not a regular file; give one that can be read again"
    return f"no such file{instead_of(path)}"


def instead_of(path: Path) -> str:
    """Return words on a missing path: the first folder that is not there, and the nearest name; "" without both."""
    missing = next((each for each in (*reversed(path.parents), path) if not each.exists()), path)
    try:
        near = nearest(missing.name, sorted(each.name for each in missing.parent.iterdir()))
    except OSError:  # it is not for us to read
        near = ""
    folder = "" if missing == path else f": there is no folder {missing}"
    return f"{folder}{near}"
