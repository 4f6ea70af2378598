"""The command `gradparity found`: the defects of frameworks and packages in docs/found.md, by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from parity_tests.cli.terminal import Output

# A copy of docs/found.md is in the wheel; a checkout has the page itself.
_PAGES = (Path(__file__).with_name("found.md"), Path(__file__).parents[3] / "docs" / "found.md")
_ROW = re.compile(r"^\| \[(\d+)\]\((found/[\w-]+\.md)#([^)]*)\) \| ([1-4]) \|" + r" ([^|]+) \|" * 6 + "$", re.MULTILINE)
SEVERITIES = {
    1: "wrong at ordinary inputs",
    2: "wrong at special, but natural inputs",
    3: "lost digits, errors, rare modes",
    4: "extreme inputs, or private functions",
}


@dataclass(frozen=True)
class Entry:
    """A row of docs/found.md.

    Attributes:
        number: of the entry.
        page, anchor: of its section, which has a repro that runs.
        severity: of `SEVERITIES`.
        what: is wrong, after the name of the project.
        repro, given, right: at which input, what comes out there, and the right value.
        witness: what gives the right value.
        upstream: the project's own issues of it, or that none was found.
    """

    number: int
    page: str
    anchor: str
    severity: int
    what: str
    repro: str
    given: str
    right: str
    witness: str
    upstream: str

    @property
    def text(self) -> str:
        """The entry in lines."""
        told = {"severity": f"{self.severity}, {SEVERITIES[self.severity]}", "at": self.repro, "gives": self.given}
        told |= {"right": f"{self.right} ({self.witness})", "upstream": self.upstream}
        told |= {"repro": f"docs/{self.page}, section {self.number}"}
        return "\n".join([f"{self.number}. {self.what}", *(f"    {name:<8}  {line}" for name, line in told.items())])

    def has(self, words: Sequence[str]) -> bool:
        """Return whether each word is part of what is wrong or of the repro, in upper or lower case."""
        text = f"{self.what} {self.repro}".lower()
        return all(word.lower() in text for word in words)


def page() -> str:
    """The text of docs/found.md."""
    return next(path for path in _PAGES if path.exists()).read_text(encoding="utf-8")


def entries(text: str) -> list[Entry]:
    """The rows of the tables of a text like docs/found.md, in order."""
    return [
        Entry(int(number), of, anchor, int(severity), *map(_plain, cells))
        for number, of, anchor, severity, *cells in _ROW.findall(text)
    ]


def found(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Parts of names, such as kron, or layer_norm bfloat16.", show_default=False),
    ] = None,
) -> None:
    """Show defects of PyTorch, JAX, MLX and packages that were found with gradparity: all, or those of some words.

    Each was seen with the versions that are printed. Exit codes: 0, and 1 if no entry has all the words.
    """
    text = page()
    listed = [entry for entry in entries(text) if entry.has(words or ())]
    show = Output().show
    for entry in listed:
        show(entry.text if words else f"{entry.number:>3}  {entry.what}", soft_wrap=True, highlight=False, markup=False)
    if not listed:
        show(f"no entry has {' and '.join(words or ())}; gradparity found lists all", soft_wrap=True, markup=False)
        raise typer.Exit(1)
    (versions,) = re.findall(r"^(PyTorch \d.*?\))\. ", text, re.MULTILINE)
    show(f"seen with {versions}", soft_wrap=True, highlight=False, markup=False)


def _plain(cell: str) -> str:
    """A cell without Markdown: of a link the address."""
    return re.sub(r"\[[^]]*\]\((https?:[^)]*)\)", r"\1", cell.replace("**", ""))
