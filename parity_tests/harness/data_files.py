"""Files that hold data, read as what anybody may have written: each is of the kind that is expected, or told by name.

`built` makes a dataclass of JSON by the types of its fields. Fields that are not known are left out, since the schemas
of gradparity's files are additive; those that are not there have their defaults.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

LARGEST_FILE = 2**28  # bytes
_DEEPEST = 64  # levels of objects and lists; a report has 9
_SHOWN = 40  # characters of a wrong value
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", complex: "a number or a pair"}

T = TypeVar("T")


class Malformed(ValueError):
    """A file does not hold the data that are expected; the message names the file, the place and the remedy."""


def read_json(path: Path, what: str) -> Any:
    """The JSON of a file.

    Args:
        path: the file.
        what: who writes such a file, for the message: "a report that `gradparity check --json` has written".

    Raises:
        OSError: it cannot be read; with the file's name in the message.
        Malformed: it is no JSON in UTF-8, is nested too deeply, or larger than any such file is.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise OSError(f"{path}: {error.strerror or error}") from error
    if len(data) > LARGEST_FILE:
        raise Malformed(f"{path}: has more than {LARGEST_FILE:,} bytes, so that it is not {what}")
    return parsed_json(data, str(path), what)


def parsed_json(data: bytes | str, where: str, what: str) -> Any:
    """The JSON of a text; `where` it stands and `what` it should be are for the message.

    Raises:
        Malformed: it is no JSON in UTF-8, or is nested too deeply.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(text)
    except UnicodeDecodeError as error:
        raise Malformed(f"{where}: not {what}: no text in UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise Malformed(f"{where}: not {what}: no JSON at line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Malformed(f"{where}: not {what}: {problem}") from error
    if _is_deep(value):
        raise Malformed(f"{where}: not {what}: nested in more than {_DEEPEST} levels")
    return value


def built(kind: Any, value: Any, place: str = "") -> Any:
    """A value of JSON as one of a type: an instance of a dataclass, a tuple, a member of an enumeration.

    A number that is not finite is null in gradparity's JSON, and comes back as infinity; a complex one is a pair. Of a
    dataclass the fields of a protocol, which hold what is no data, are left out.

    Args:
        kind: the type; Any for whatever it is.
        value: what JSON has there.
        place: where it stands: `rows[3]`.

    Raises:
        Malformed: it is not of this type; the message begins with the place.
    """
    if kind is Any:
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _one_of(arguments, value, place)
    if origin is tuple or origin in (list, Sequence):
        return _items(origin, arguments, value, place)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _wrong(place, "an object", value)
        named = [(key, f"{place}[{json.dumps(key)}]", item) for key, item in value.items()]
        return {built(arguments[0], key, where): built(arguments[1], item, where) for key, where, item in named}
    if dataclasses.is_dataclass(kind):
        return _record(typing.cast(type, kind), value, place)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise _wrong(place, f"one of {', '.join(str(one.value) for one in kind)}", value) from None
    return _plain(kind, value, place)


def field(data: Any, name: str, kind: Any, place: str = "") -> Any:
    """The value of one name of an object, as `built` makes it.

    Raises:
        Malformed: it is no object, has no such name, or another kind of value there.
    """
    if not isinstance(data, dict):
        raise _wrong(place, "an object", data)
    where = f"{place}.{name}" if place else name
    if name not in data:
        raise Malformed(f"{where} is missing")
    return built(kind, data[name], where)


def _record(kind: type[T], value: Any, place: str) -> T:
    if not isinstance(value, dict):
        raise _wrong(place, "an object", value)
    found = {}
    for each, of in json_fields(kind):
        where = f"{place}.{each.name}" if place else each.name
        if each.name in value:
            found[each.name] = built(of, value[each.name], where)
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise Malformed(f"{where} is missing")
    return kind(**found)


@functools.cache
def json_fields(kind: type) -> list[tuple[dataclasses.Field, Any]]:
    """The fields that JSON has, with their types."""
    hints = typing.get_type_hints(kind)
    every = [(each, hints[each.name]) for each in dataclasses.fields(kind) if each.init]
    return [(each, of) for each, of in every if not any(map(_is_protocol, (of, *typing.get_args(of))))]


def _is_protocol(kind: Any) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _one_of(kinds: Sequence[Any], value: Any, place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    given = [kind for kind in kinds if kind is not type(None)]
    if len(given) == 1:
        return built(given[0], value, place)
    for kind in given:
        try:
            return built(kind, value, place)
        except Malformed:
            continue
    raise _wrong(place, " or ".join(_WORDS.get(kind, "another kind of value") for kind in given), value)


def _items(origin: Any, arguments: Sequence[Any], value: Any, place: str) -> Any:
    if not isinstance(value, list):
        raise _wrong(place, "a list", value)
    kinds: Sequence[Any]
    if origin is not tuple or arguments[-1:] == (Ellipsis,):
        kinds = [arguments[0]] * len(value)
    elif len(value) == len(arguments):
        kinds = arguments
    else:
        raise _wrong(place, f"a list of {len(arguments)}", value)
    items = [built(kind, item, f"{place}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True))]
    return tuple(items) if origin is tuple else items


def _plain(kind: Any, value: Any, place: str) -> Any:
    if kind is complex and isinstance(value, list) and len(value) == 2:
        return complex(*(built(float, part, f"{place}[{i}]") for i, part in enumerate(value)))
    if kind in (float, complex):
        if value is None:
            return math.inf
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**308:
            return value if isinstance(value, float) else float(value)
        if isinstance(value, float):
            return value
    elif type(value) is kind:
        return value
    raise _wrong(place, _WORDS.get(kind, getattr(kind, "__name__", str(kind))), value)


def _wrong(place: str, expected: str, value: Any) -> Malformed:
    shown = "null" if value is None else repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return Malformed(f"{place or 'it'} must be {expected}, and is {shown}")


def _is_deep(value: Any) -> bool:
    """True if lists and objects are nested in more levels than those of any file of gradparity's."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
