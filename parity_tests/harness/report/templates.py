"""The templates of pages: one self-contained HTML file each."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from parity_tests.harness.report.printable import printable


def templates(folder: Path) -> Environment:
    """Return the templates of a folder; what they show is escaped, and control characters are visible."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )


def _shown(value: object) -> object:
    """A value as the page has it: control characters are visible, as on a terminal; what is HTML already stays."""
    return value if isinstance(value, Markup | int | float) else printable(str(value))
