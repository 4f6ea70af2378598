"""`--watch`: judge again whenever a file changes, each time in a new process, which loads the new code.

The files are looked at a few times a second: there are few of them, and no library is needed for it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from parity_tests.cli.interruption import Interruption
from parity_tests.cli.terminal import tell
from parity_tests.cli.used_files import used_by
from parity_tests.harness.isolation.imported import Stamps, stamps

_PAUSE = 0.2  # seconds between two looks
_SETTLED = 0.1  # seconds without a change, after which whoever writes is taken to have finished
_PATIENCE = 3.0  # seconds for a round to end by itself


def watch(files: Sequence[Path], interruption: Interruption) -> NoReturn:
    """Judge, wait for a change of the files or of what they use, and judge again.

    Args:
        files: those that are judged.
        interruption: what ends it.

    Raises:
        KeyboardInterrupt: a signal has come.
    """
    command = _command(sys.orig_argv)
    with interruption.noted():
        while True:
            before = stamps(used_by(files))
            _round(command, before, interruption)
            tell(f"waiting for a change of {_names(before)}; Ctrl-C ends it")
            tell(f"{_names(_change(before, interruption))} changed: judging again")


def _command(own: Sequence[str]) -> list[str]:
    """The command that judges once, started as this process was."""
    place = own.index("--") if "--" in own else len(own)
    return [sys.executable, *own[1:place], "--no-watch", "--failed-first", *own[place:]]


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(min(os.path.relpath(path), str(path), key=len) for path in paths)


def _round(command: Sequence[str], before: Stamps, interruption: Interruption) -> None:
    """Judge once; what is being judged while a file changes is old, so it ends at once then."""
    process = subprocess.Popen(command)
    interruption.last_words = process.kill
    try:
        while process.poll() is None and stamps(before) == before:
            interruption.check()
            time.sleep(_PAUSE)
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)  # a Ctrl-C has reached it, too
        raise
    finally:
        _end(process)
        interruption.last_words = lambda: None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that has not ended."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _change(before: Stamps, interruption: Interruption) -> list[Path]:
    """Wait until files differ from what they were, and whoever writes them has finished; returns which."""
    while (now := stamps(before)) == before:
        interruption.check()
        time.sleep(_PAUSE)
    while True:
        time.sleep(_SETTLED)
        later = stamps(before)
        if later == now:
            return [path for path in before if before[path] != now[path]] or list(before)
        now = later
