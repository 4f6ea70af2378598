"""The user's modules that a process has imported, and whether their files have changed: it imports a module once."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

Stamp = tuple[int, int, int]
Stamps = Mapping[Path, Stamp | None]

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def stamps(paths: Iterable[Path]) -> Stamps:
    """Return the time, size and identity of each file, which change when it is written; None if it is not there."""
    return {path: _stamp(path) for path in paths}


def imported(known: Stamps, began: int) -> Stamps:
    """Return the files of this process's modules, but for those that are installed, as they were when they were read.

    Args:
        known: what an earlier call has returned.
        began: when the modules that are not known yet began to be imported, by `time.time_ns`. A file that was written
            later may have been read before or after, and has no stamp, so that it is not what it will be.
    """
    files = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    own = {Path(file) for file in files if isinstance(file, str) and not file.startswith(_INSTALLED)}
    found = {path: _stamp(path) for path in own if path not in known}
    return {**known, **{path: None if stamp and stamp[0] >= began else stamp for path, stamp in found.items()}}


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
