"""`--watch`: judge again whenever a file changes, each time in a new process, which loads the new code.

The files are looked at a few times a second: there are few of them, and no library is needed for it.
"""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from parity_tests.cli.interruption import Interruption
from parity_tests.cli.terminal import tell

_PAUSE = 0.2  # seconds between two looks
_SETTLED = 0.1  # seconds without a change, after which whoever writes is taken to have finished
_PATIENCE = 3.0  # seconds for a round to end by itself

Stamps = Mapping[Path, tuple[int, int, int] | None]


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


def stamps(paths: Iterable[Path]) -> Stamps:
    """Return the time, size and identity of each file, which change when it is written; None if it is not there."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def used_by(files: Sequence[Path]) -> list[Path]:
    """The files, and those that they use: modules of their folders that they import, and files that they name.

    A name of a file is a string in the source, such as "kernel.cu", which a case compiles. It is found where it is
    relative to the folder of the file that has it, or to the current one.
    """
    found: dict[Path, None] = {}
    waiting = [path.absolute() for path in files]
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = None
        if path.suffix == ".py":
            waiting += _used(path)
    return list(found)


def _used(path: Path) -> Iterator[Path]:
    """The files that a Python file uses directly; none of one that cannot be read as Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield from _modules(path.parent, name.name)
            case ast.ImportFrom(module=module, names=names, level=level):
                folder = path.parent if level < 2 else path.parents[level - 1]
                for name in names:
                    yield from _modules(folder, ".".join(filter(None, (module, name.name))))
            case ast.Constant(value=str(text)) if not os.path.isabs(text):
                yield from (file for folder in (path.parent, Path.cwd()) if _is_file(file := folder / text))


def _modules(folder: Path, name: str) -> Iterator[Path]:
    """The file of a module in a folder, and those of its packages; the last part may be a name in the module."""
    place = folder
    for part in name.split("."):
        place /= part
        for file in (place.with_name(f"{part}.py"), place / "__init__.py"):
            if _is_file(file):
                yield file


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text that is no name of a file
        return False
