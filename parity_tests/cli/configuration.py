"""[tool.gradparity] of pyproject.toml: defaults for the options of the commands that judge."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity_tests.harness.names import nearest


def defaults(start: Path, options: Mapping[str, str]) -> dict[str, Any]:
    """Return the defaults that the nearest pyproject.toml with a [tool.gradparity] sets, in a folder or above it.

    Args:
        start: the folder.
        options: the parameter of each option that may be set, by the option's name without dashes in front.

    Raises:
        ValueError: the file is no TOML, or sets what is no option; the message names the file and the key.
    """
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        table = _table(file) if file.is_file() else None
        if table is not None:
            return {_parameter(file, key, options): value for key, value in table.items()}
    return {}


def _table(file: Path) -> dict[str, Any] | None:
    """The table [tool.gradparity] of a file; None if it has none."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not TOML: {error}") from error
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror or error}") from error
    tool = content.get("tool")
    table = tool.get("gradparity") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ValueError(f"{file}: tool.gradparity must be a table, [tool.gradparity]")
    return table


def _parameter(file: Path, key: str, options: Mapping[str, str]) -> str:
    if key not in options:
        guess = nearest(key, options)
        raise ValueError(f"{file}: [tool.gradparity] has no option {key!r}{guess}; there are {', '.join(options)}")
    return options[key]
