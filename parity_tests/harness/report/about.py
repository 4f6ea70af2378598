"""The text about a check, which `gradparity explain` prints and an HTML report shows: read here, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

_FENCE = re.compile(r"^```\w*\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A part of a text: `kind` is "code", "heading" or "paragraph"; every other part of a paragraph is code."""

    kind: str
    parts: tuple[str, ...]


def markdown(check: str) -> str:
    """Return the file in Markdown about a check, which lies beside the checks; empty if there is none."""
    if not check.isidentifier():  # of a report that somebody else has written
        return ""
    file = resources.files("parity_tests.harness") / "checks" / "explanations" / f"{check}.md"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def blocks(text: str) -> list[Block]:
    """Return the parts of a text that has the Markdown of these files: code, headings, paragraphs."""
    found = []
    for i, part in enumerate(_FENCE.split(text)):
        if i % 2:
            found.append(Block("code", (part.rstrip("\n"),)))
            continue
        for paragraph in filter(None, map(str.strip, part.split("\n\n"))):
            heading = paragraph.startswith("#")
            plain = paragraph.lstrip("# ") if heading else paragraph
            found.append(Block("heading" if heading else "paragraph", tuple(plain.split("`"))))
    return found
