"""The recorded calls of an OpInfo, kept from one run to the next in a file of arrays and JSON.

The files lie in the folder of JAX's compilation cache or, if there is none, in the user's. What a recording depends on
is in the name of their folder: the versions of PyTorch and NumPy, the recording code, and the operators that are looked
for. A file is written whole or not at all, so several processes may record at the same time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch

from parity_tests.harness.report.atomic_file import write_bytes
from parity_tests.sweep.recorded_calls import RecordedCall

_FORMAT = 1
# These say what is recorded, and what of it is kept.
_SOURCES = tuple(Path(__file__).parent / name for name in ("calls.py", "kept_calls.py", "recorded_calls.py"))
_OLDER_FOLDERS = 2  # of other versions, that are left
_NAMES, _CALLS = "names", "calls"
_DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def root() -> Path:
    """The folder that the folders of all versions lie in."""
    of_jax = jax.config.values["jax_compilation_cache_dir"]
    if of_jax and "://" not in of_jax:
        return Path(of_jax, "gradparity-calls")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gradparity", "calls")


@functools.cache
def folder_name(wanted: frozenset[str], sources: tuple[Path, ...] = _SOURCES) -> str:
    """The name of the folder of this version's files, where these operators are looked for by this code."""
    code = (_digest(file.read_bytes()) for file in sources)
    facts = [_FORMAT, torch.__version__, np.__version__, *code, sorted(wanted)]
    return _digest(repr(facts).encode())[:24]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class KeptCalls:
    """The recordings of one version, each by the name of its unit of work; `sources` are the files that record."""

    def __init__(self, wanted: frozenset[str], sources: tuple[Path, ...] = _SOURCES) -> None:
        self._folder = root() / folder_name(wanted, sources)

    def names(self, unit: str) -> frozenset[str] | None:
        """The operators of a unit's calls; None if it is not kept, or its file cannot be read."""
        return self._read(unit, lambda file: frozenset(_text(file, _NAMES)))

    def read(self, unit: str) -> list[RecordedCall] | None:
        """A unit's calls; None if it is not kept, or its file cannot be read."""
        return self._read(unit, _calls)

    def write(self, unit: str, calls: Sequence[RecordedCall]) -> None:
        """Keep a unit's calls for later runs. A folder that cannot be written to keeps none."""
        with contextlib.suppress(OSError):
            if not self._folder.exists():
                _delete_old_folders(self._folder.parent)
            self._folder.mkdir(parents=True, exist_ok=True)
            write_bytes(self._file(unit), as_bytes(calls))

    def _file(self, unit: str) -> Path:
        return self._folder / f"{unit}.npz"

    def _read(self, unit: str, read: Any) -> Any:
        try:
            with open(self._file(unit), "rb") as whole, np.load(whole, allow_pickle=False) as file:
                return read(file)
        except _DAMAGED:
            return None  # of whatever made it: it is recorded again


def as_bytes(calls: Sequence[RecordedCall]) -> bytes:
    """The content of a file: every array by itself, and JSON that says where it belongs."""
    arrays: list[np.ndarray] = []
    described = []
    for call in calls:
        arguments = {key: _as_json(value, arrays) for key, value in call.arguments.items()}
        described.append([call.name, call.source, arguments, [_as_json(y, arrays) for y in call.results]])
    texts = {_NAMES: sorted({call.name for call in calls}), _CALLS: described}
    members: dict[str, Any] = {f"a{i}": array for i, array in enumerate(arrays)}
    members |= {key: np.array(json.dumps(text)) for key, text in texts.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **members)
    return file.getvalue()


def _calls(file: Any) -> list[RecordedCall]:
    return [
        RecordedCall(
            name,
            {key: _of_json(value, file) for key, value in arguments.items()},
            tuple(_of_json(y, file) for y in results),
            source,
        )
        for name, source, arguments, results in _text(file, _CALLS)
    ]


def _text(file: Any, key: str) -> list:
    return json.loads(str(file[key]))


def _as_json(value: Any, arrays: list[np.ndarray]) -> Any:
    """A value of a call as JSON's; an array is added to the list, and its number stands for it."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, list | tuple):
        return [_as_json(each, arrays) for each in value]
    return value


def _of_json(value: Any, file: Any) -> Any:
    if isinstance(value, list):
        return [_of_json(each, file) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "array":
            return file[f"a{content}"]
        case "dtype":
            return np.dtype(content)
        case "complex":
            return complex(*content)
    raise ValueError(f"{kind} is none of the kinds that are written")


def _delete_old_folders(of: Path) -> None:
    """Delete the folders of all other versions but the newest ones."""
    folders: Iterable[Path] = of.iterdir() if of.exists() else ()
    by_age = sorted((each for each in folders if each.is_dir()), key=lambda each: each.stat().st_mtime, reverse=True)
    for each in by_age[_OLDER_FOLDERS:]:
        shutil.rmtree(each, ignore_errors=True)
