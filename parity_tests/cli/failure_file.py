"""An .npz file of a failure, read as data that anybody may have written: nothing in it is run, or taken on trust."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from parity_tests.cli.regular_file import why_no_file
from parity_tests.harness.data_files import Malformed, parsed_json
from parity_tests.harness.judging.reproducer import FORMAT
from parity_tests.harness.specs.seeds import HiddenSeed

MOST_BYTES = 2**32  # of all arrays together; a failure is shrunk, and given inputs are held a dozen times at once
# The numbers of a failure are hardly compressed, but for cotangents with one entry: so many bytes from one are none
_UNSUSPECTED, _RATIO = 2**28, 200
_KINDS = "biufc?"  # of arrays: booleans and numbers
_TEXT = (str, "text")
_FACTS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "op": _TEXT,
    "candidate": _TEXT,
    "check": _TEXT,
    "dtype": _TEXT,
    "device": _TEXT,
    "sample": _TEXT,
    "why": _TEXT,
    "case": ((str, type(None)), "text or null"),
    "origin": ((dict, type(None)), "an object or null"),
    "position": (int, "a number"),
    "seed": ((int, type(None)), "a number or null"),
    "given": (bool, "true or false"),
    "sizes": (dict, "an object"),
    "versions": (dict, "an object"),
    "absent": (list, "a list"),
}


class ReplayError(Exception):
    """The file cannot be replayed; the message says why, and what to do about it."""


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts that a file holds, and its arrays by name; if it has no kind, they are those of a failure.

    Raises:
        ReplayError: there is no such file, or it is none that gradparity has written.
    """
    if reason := why_no_file(path):
        raise ReplayError(f"{path}: {reason}")
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = _arrays(archive)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, _Unreadable) as error:
        what = str(error) if isinstance(error, _Unreadable) else f"it is no whole .npz file: {error}"
        raise ReplayError(f"{path}: not a failure that gradparity has written ({what})") from error
    try:
        facts = _facts(arrays)
    except _Unreadable as error:
        raise ReplayError(f"{path}: not a failure that gradparity has written ({error})") from error
    if facts.get("format") != FORMAT:
        raise ReplayError(f"{path}: is of format {facts.get('format')!r}, this version of gradparity reads {FORMAT}")
    if "kind" not in facts:
        _check_facts(path, facts)
    return facts, arrays


class _Unreadable(Exception):
    """The message says what is wrong with the file."""


def _arrays(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """Every array, once all headers are known to claim no more than there may be."""
    members = archive.infolist()
    claimed = sum(member.file_size for member in members)
    if claimed > MOST_BYTES:
        raise _Unreadable(f"it claims {_size(claimed)}; {_size(MOST_BYTES)} are the most that is read")
    packed = sum(member.compress_size for member in members)
    if claimed > _UNSUSPECTED and claimed > _RATIO * packed:
        raise _Unreadable(
            f"it claims {_size(claimed)}, packed in {_size(packed)}, which numbers of a failure never are"
        )
    if len({member.filename for member in members}) < len(members):
        raise _Unreadable("two of its arrays have one name")
    arrays = {}
    for member in members:
        if not member.filename.endswith(".npy"):
            raise _Unreadable(f"{member.filename!r} in it is no array")
        arrays[member.filename.removesuffix(".npy")] = _array(archive, member)
    return arrays


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array, read by hand: `numpy.load` asks for as much memory as a header claims."""
    name = member.filename
    with archive.open(member) as file:
        try:
            major, _ = npy.read_magic(file)
            read_header = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}[major]
            shape, fortran_order, dtype = read_header(file)
        except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise _Unreadable(f"{name!r} in it has no header of an array") from error
        if dtype.kind not in _KINDS and not (name == "facts.npy" and dtype.kind == "U"):
            raise _Unreadable(f"{name!r} in it holds {'Python objects' if dtype.hasobject else dtype}, not numbers")
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise _Unreadable(f"{name!r} in it has the shape {shape}")
        size = math.prod(shape) * dtype.itemsize
        if size > member.file_size:
            raise _Unreadable(f"{name!r} in it claims {_size(size)}, and has {_size(member.file_size)}")
        data = bytearray(size)  # which the array then is, without a copy
        filled = 0
        while filled < size and (part := file.read(min(2**20, size - filled))):
            data[filled : filled + len(part)] = part
            filled += len(part)
    if filled < size:
        raise _Unreadable(f"{name!r} in it is cut off")
    flat = np.frombuffer(data, dtype) if dtype.itemsize else np.zeros(shape, dtype)
    return flat.reshape(shape, order="F" if fortran_order else "C")


def _facts(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    text = arrays.pop("facts", None)
    if text is None:
        raise _Unreadable("it has no facts about a failure")
    if text.dtype.kind != "U" or text.ndim:
        raise _Unreadable("its facts are no text")
    try:
        facts = parsed_json(str(text), "facts", "the facts of a failure")
    except Malformed as error:
        raise _Unreadable("its facts are no JSON") from error
    if not isinstance(facts, dict):
        raise _Unreadable(f"its facts are a {type(facts).__name__} where an object is expected")
    return facts


def _check_facts(path: Path, facts: dict[str, Any]) -> None:
    facts.setdefault("absent", [])  # which files of earlier versions do not have
    facts.setdefault("origin", None)
    for name, (kind, words) in _FACTS.items():
        if name not in facts:
            raise ReplayError(f"{path}: its facts have no {name!r}")
        value = facts[name]
        negative = isinstance(value, int) and value < 0
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool) or negative:
            raise ReplayError(f"{path}: {name!r} in its facts must be {words}, and is {_cut(value)}")
    facts["seed"] = HiddenSeed() if facts["seed"] is None else facts["seed"]
    for name, value in (facts["origin"] or {}).items():
        if not isinstance(value, str):
            raise ReplayError(f"{path}: {name!r} of the origin in its facts must be text, and is {_cut(value)}")
    for axis, size in facts["sizes"].items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ReplayError(f"{path}: the size of {axis!r} in its facts must be a number, and is {_cut(size)}")


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _size(count: int) -> str:
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}"
