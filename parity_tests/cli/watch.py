"""`--watch`: judge again whenever a file changes, each time in a new process, which loads the new code.

Where a kernel can be served, as by `gradparity serve`, only the kernel's process is new.

The files are looked at a few times a second: there are few of them, and no library is needed for it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from parity_tests.cli.interruption import Interruption
from parity_tests.cli.terminal import tell
from parity_tests.cli.used_files import used_by
from parity_tests.harness.isolation.imported import Stamps, stamps

_PAUSE = 0.2  # seconds between two looks
_SETTLED = 0.1  # seconds without a change, after which whoever writes is taken to have finished
_PATIENCE = 3.0  # seconds for a round to end by itself


@dataclass(frozen=True)
class Kept:
    """Processes that stay from round to round.

    Attributes:
        judge: judges by them, with the arguments of `gradparity`.
        interruption: what ends a round.
    """

    judge: Callable[[Sequence[str]], Any]
    interruption: Interruption


def watch(files: Sequence[Path], interruption: Interruption, kept: Kept | None) -> NoReturn:
    """Judge, wait for a change of the files or of what they use, and judge again.

    Args:
        files: those that are judged.
        interruption: what ends it.
        kept: the processes that judge; None if a new one does.

    Raises:
        KeyboardInterrupt: a signal has come.
    """
    with interruption.noted() if kept is None else contextlib.nullcontext():
        while True:
            before = stamps(used_by(files))
            if kept is None:
                _round([sys.executable, *_once(sys.orig_argv[1:])], before, interruption)
            else:
                _round_by(kept, before)
            tell(f"waiting for a change of {_names(before)}; Ctrl-C ends it")
            tell(f"{_names(_change(before, interruption))} changed: judging again")


def _once(own: Sequence[str]) -> list[str]:
    """The arguments of this process, to judge once."""
    place = own.index("--") if "--" in own else len(own)
    return [*own[:place], "--no-watch", "--failed-first", *own[place:]]


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


def _round_by(kept: Kept, before: Stamps) -> None:
    """Judge once; if a file changes, and the round does not end by itself soon after, it is ended."""
    over = threading.Event()

    def end_if_old() -> None:
        while not over.wait(_PAUSE):
            if stamps(before) != before and not over.wait(_PATIENCE):
                kept.interruption.came = True

    looking = threading.Thread(target=end_if_old, daemon=True)
    looking.start()
    try:
        kept.judge(_once(sys.argv[1:]))
    finally:
        over.set()
        looking.join()
        kept.interruption.came = False


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
