"""The configurations of a kernel as they are given to a command: a JSON file, or the JSON itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from parity_tests.cli.regular_file import why_no_file
from parity_tests.harness.candidates.configuration_names import by_name

_HINT = 'write a list of keyword arguments: [{"block": 16}, {"block": 32}]'


def read_configurations(text: str) -> str:
    """Return the JSON of a list of keyword arguments, which `text` is, or the file of this name has.

    Raises:
        ValueError: there is no such file, or no list of objects with names, or two of them are the same.
    """
    if not text.lstrip().startswith("["):
        if reason := why_no_file(Path(text)):
            raise ValueError(f"--configs {text}: {reason}; or {_HINT}")
        text = Path(text).read_text(encoding="utf-8")
    configurations_of(text)
    return text


def configurations_of(text: str) -> Mapping[str, Mapping[str, object]]:
    """Return the configurations of a list in JSON by their names.

    Raises:
        ValueError: it is no list of objects with names, or one is there twice.
    """
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--configs: no JSON: {error}; {_HINT}") from error
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise ValueError(f"--configs: no list with configurations; {_HINT}")
    try:
        return by_name(listed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--configs: {error}") from error
