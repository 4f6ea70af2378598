"""The help fits a terminal of 80 columns, and the commands that the documentation shows exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from parity_tests.cli.app import app

from ._square import gradparity

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("derivation/*.md"), *ROOT.glob("parity_tests/**/*.md")]
)
COMMANDS = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
BLOCK = re.compile(r"^```.*?^```|^ {4}.*?$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^\s*(?:\$ |- run: )?(?:\S*/)?gradparity (\w[^\n]*)$", re.MULTILINE)
SPAN = re.compile(r"`gradparity ([^`]+)`")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_fits_a_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = gradparity(name, "--help").stdout.splitlines()
    assert 5 < len(lines) <= 60
    assert max(map(len, lines)) <= 80


def test_the_list_of_commands_cuts_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = gradparity("--help").stdout
    assert "..." not in printed.partition("Commands:")[2]
    assert [name for name in COMMANDS if f"\n  {name} " not in printed] == []


def _shown(page: Path) -> Iterator[list[str]]:
    """The words of each command that a page shows, up to a comment or another program."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(BLOCK.findall(text))
    for command in (*SPAN.findall(text), *LINE.findall(blocks)):
        yield re.split(r"\s[#|>&;]", command)[0].split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_the_documentation_exist(page: Path) -> None:
    top = {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
    for command, *words in _shown(page):
        if command.startswith("-"):
            assert command in {*top, "--help"}, command
            continue
        if command.isupper():  # a name to fill in
            continue
        assert command in COMMANDS, command
        known = {o for p in COMMANDS[command].params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        given = {word.split("=")[0].rstrip(",") for word in words if re.match(r"--?[a-z]", word)}
        assert given <= known, (command, given - known)


def test_the_documentation_shows_commands() -> None:
    assert sum(1 for page in PAGES for _ in _shown(page)) > 40
