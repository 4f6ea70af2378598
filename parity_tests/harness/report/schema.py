"""The JSON Schema of a report: `gradparity report --schema`. It says of each type how `data_files.built` reads it."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from parity_tests.harness.candidates.definition import Definition
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.data_files import json_fields
from parity_tests.harness.report.conclusions import Conclusion
from parity_tests.harness.report.report import SCHEMA, Report
from parity_tests.harness.report.results import Failure, Row

_NUMBER = {"type": ["number", "null"], "description": "null if it is not finite"}
_PLAIN: Mapping[Any, Mapping[str, Any]] = {
    Any: {},
    bool: {"type": "boolean"},
    complex: {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}]},
    float: _NUMBER,
    int: {"type": "integer"},
    str: {"type": "string"},
    type(None): {"type": "null"},
}
_FIELDS: Mapping[str, Any] = {
    "schema": int,
    "passed": bool,
    "environment": Mapping[str, Any],
    "skipped": list[str],
    "not_built": list[NotBuilt],
    "error": str | None,
    "seconds": Mapping[str, float],
    "catches": Mapping[str, str],
    "allow_suspect": bool,
    "definitions": list[Definition],
    "summary": list[Conclusion],
    "rows": list[Row],
    "failures": list[Failure],
}


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of the data that `Report.as_dict` returns and `--json` writes.

    It is that of draft 2020-12. Later versions of gradparity may add fields; if one goes or changes its meaning, the
    number `schema` does, too.
    """
    definitions = dict[str, Any]()
    report = _object(inspect.getdoc(Report) or "", _FIELDS, definitions)
    report["properties"]["schema"] = {"const": SCHEMA}
    # The diagnosis of a row is one of the report's `failures`.
    rows = {each.name: of for each, of in json_fields(Row)} | {"failure": int | None}
    definitions["Row"] = _object(inspect.getdoc(Row) or "", rows, definitions)
    address = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": address, "title": "A report of gradparity", **report, "$defs": definitions}


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; those of dataclasses are added to `definitions`, by the names of their classes."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema_of(each, definitions) for each in arguments]}
    if origin in (list, Sequence) or (origin is tuple and arguments[-1:] == (Ellipsis,)):
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is tuple:
        items = [_schema_of(each, definitions) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [str(one.value) for one in kind]}
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"no JSON Schema of {kind}")
    record = typing.cast(type, kind)
    if record.__name__ not in definitions:
        definitions[record.__name__] = {}  # of a type that contains itself
        fields = {each.name: of for each, of in json_fields(record)}
        definitions[record.__name__] = _object(inspect.getdoc(record) or "", fields, definitions)
    return {"$ref": f"#/$defs/{record.__name__}"}


def _object(description: str, fields: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object, all of whose fields are there; it may have more in a later version."""
    properties = {name: _schema_of(of, definitions) for name, of in fields.items()}
    return {"type": "object", "description": description, "properties": properties, "required": list(fields)}
