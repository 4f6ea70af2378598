"""Whether this machine grants the namespaces in which a solution can neither see nor reach what it must not."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCH = Path(__file__).parent / "guest" / "launch.py"
START = Path(__file__).parent / "guest" / "start.py"
STUB = """\
raise ImportError("the reference is out of a solution's reach: write what is needed of it into the solution")
"""
_SECONDS = 30.0  # for a process that does nothing


@dataclass(frozen=True)
class Protection:
    """How far a solution's process is apart from all else.

    Attributes:
        namespaces: whether it has namespaces of its own: of users, files, processes, the network.
        reason: why it has none.
    """

    namespaces: bool
    reason: str = ""

    def __str__(self) -> str:
        if self.namespaces:
            return "solutions ran in namespaces of their own: no network, no writing to files, no reference in reach"
        return f"solutions ran in processes of their own; namespaces are not available: {self.reason}"


@functools.cache
def protection() -> Protection:
    """Try once whether namespaces are to be had."""
    if not sys.platform.startswith("linux"):
        return Protection(False, f"this is {sys.platform}, and they are Linux's")
    with tempfile.TemporaryDirectory(prefix="gradparity-") as folder:
        configured = configuration((sys.executable, "-I", "-S", "-c", ""), Path(folder), (), True)
        command = (sys.executable, "-I", "-S", str(LAUNCH), configured)
        try:
            tried = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Protection(False, str(error))
    if tried.returncode:
        return Protection(False, next(iter(tried.stderr.splitlines()), f"exit code {tried.returncode}"))
    return Protection(True)


def configuration(
    command: Sequence[str],
    folder: Path,
    hidden: Sequence[Path],
    namespaces: bool,
    descriptors: Sequence[int] = (),
) -> str:
    """The argument of `launch.py`.

    Args:
        command: what it starts.
        folder: a temporary one, in which the solution gets a folder "own" to write to.
        hidden: files and folders that a solution in namespaces does not see.
        namespaces: whether it gets them.
        descriptors: the pipes that the solution inherits.
    """
    own, stub, empty = folder / "own", folder / "hidden.py", folder / "empty"
    own.mkdir(exist_ok=True)
    stub.write_text(STUB, encoding="utf-8")
    empty.touch()
    data: dict[str, Any] = {
        "command": list(command),
        "own": str(own),
        "hidden": [[str(path), str(stub if path.suffix == ".py" else empty)] for path in hidden],
        "empty": str(empty),
        "namespaces": namespaces,
        "parent": os.getpid(),
        "descriptors": list(descriptors),
    }
    return json.dumps(data)
