"""The files that a file of the user's uses, found without running it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


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
