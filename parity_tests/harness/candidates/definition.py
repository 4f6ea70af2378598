"""Where a candidate is defined: the file and the line at which a CI server shows what is wrong with it."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Definition:
    """Where a candidate is defined.

    Attributes:
        op: the name of the operator.
        candidate: the name of the candidate.
        file: relative to the folder of the run.
        line: the first line of its code, from 1 on; None where only the file is known, as of what is compiled.
    """

    op: str
    candidate: str
    file: str
    line: int | None = None


def definition_of(op: str, candidate: str, call: Any, file: Path | None, folder: Path) -> Definition | None:
    """Return where a candidate is defined; None if nothing is known.

    Args:
        op: the name of the operator.
        candidate: the name of the candidate.
        call: the callable that its author wrote; None if there is none.
        file: of its case, where its own code is not one of the user's files: compiled, or of an installed package.
        folder: of the run, in which the user's files are.
    """
    folder = folder.resolve()
    try:
        own, line = _code(call)
    except Exception:  # no harm is done by a callable that has no code, or whose attributes raise anything
        own, line = None, 0
    if own is not None and own.is_relative_to(folder) and not own.is_relative_to(sys.prefix):
        return Definition(op, candidate, own.relative_to(folder).as_posix(), line)
    if file is None:
        return None
    return Definition(op, candidate, Path(os.path.relpath((folder / file).resolve(), folder)).as_posix())


def definitions(op: str, candidates: Sequence, file: Path | None, folder: Path) -> list[Definition]:
    """Where these candidates are defined, each whose place is known; see `definition_of`."""
    found = (definition_of(op, each.name, getattr(each, "source", None), file, folder) for each in candidates)
    return [each for each in found if each is not None]


def _code(call: Any) -> tuple[Path | None, int]:
    """The file and the first line of a callable's code; of a Function's `apply` those of the class."""
    while isinstance(call, functools.partial):
        call = call.func
    call = inspect.unwrap(call)
    if inspect.ismethod(call) and inspect.isclass(call.__self__):
        call = call.__self__
    elif not inspect.isroutine(call) and not inspect.isclass(call):
        call = type(call)
    code = getattr(call, "__code__", None)
    if code is not None:
        return _user_file(code.co_filename), code.co_firstlineno
    file = _user_file(inspect.getsourcefile(call))
    return file, 0 if file is None else inspect.findsource(call)[1] + 1


def _user_file(name: str | None) -> Path | None:
    """Return the path of a file; None of what is no file, as the "<string>" of `exec`."""
    return None if name is None or name.startswith("<") else Path(name).resolve()
