"""The gallery of failures: `python docs/make_failures.py` judges its cases and writes what is printed into the page.

A case is a file in docs/failures, whose first line is the command that judges it. failures.md has a link to it, and
below the link the failure as a terminal prints it. On the site the link becomes the code, and the figures of the HTML
report follow the text: `with_pictures`. The hooks of MkDocs judge all cases whenever they build the site.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from pathlib import Path

from parity_tests import Report, crosscheck
from parity_tests.cli.case_file import load_case
from parity_tests.cli.terminal import Output
from parity_tests.harness.report.html import as_html
from parity_tests.harness.report.text import failures

DOCS = Path(__file__).parent
PAGE = DOCS / "failures.md"
COLUMNS = 100
CASE = re.compile(r"^\[(\w+)\.py\]\(failures/\1\.py\)\n\n```text\n(.*?)```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"# gradparity check (\w+)\.py --quick --only (\w+)\n")
DARK = re.compile(r"body \.gradparity (\{.*?\})", re.DOTALL)


def source(name: str) -> str:
    """Return the text of a case file."""
    return (DOCS / "failures" / f"{name}.py").read_text(encoding="utf-8")


@functools.cache
def report(name: str) -> Report:
    """Judge a case as its first line says.

    Raises:
        ValueError: it says no command, or another file's.
    """
    command = COMMAND.match(source(name))
    if command is None or command[1] != name:
        raise ValueError(f"failures/{name}.py must begin with: # gradparity check {name}.py --quick --only CHECK")
    spec, (candidate,) = load_case(DOCS / "failures" / f"{name}.py")
    return crosscheck(candidate, spec, checks=[command[2]], device="cpu", quick=True)


def printed(name: str) -> str:
    """Return the failures of a case as a terminal prints them, without the call and the verdict."""
    shown = io.StringIO()
    terminal = Output(file=shown, width=COLUMNS, force_terminal=True, color_system=None, highlight=False)
    for text in failures(report(name))[:-1]:
        terminal.show(text, soft_wrap=True, end="")
    return "".join(line for line in shown.getvalue().splitlines(True) if not line.startswith("  replay  "))


def written(page: str) -> str:
    """Return the page with the texts that its cases print today."""
    return CASE.sub(lambda case: f"[{case[1]}.py](failures/{case[1]}.py)\n\n```text\n{printed(case[1])}```", page)


def with_pictures(page: str) -> str:
    """Return the page as the site has it: with the code of each case, and with the figures of its report."""

    def shown(case: re.Match[str]) -> str:
        name = case[1]
        figures = re.findall(r"<figure>.*?</figure>", as_html(report(name)), re.DOTALL)
        whole = f'<p><a href="{name}.html">The whole report</a></p>'
        element = f'<div class="gradparity" style="background: none">{"".join(figures)}{whole}</div>'
        return f"```python\n{source(name)}```\n\n```text\n{case[2]}```\n\n{_without_empty_lines(element)}"

    return f"{CASE.sub(shown, page)}\n{_style()}\n"


def pages() -> dict[str, Callable[[], str]]:
    """Return the reports of the cases, as HTML, by their places on the site."""
    names = [case[1] for case in CASE.finditer(PAGE.read_text(encoding="utf-8"))]
    return {f"failures/{name}.html": functools.partial(lambda name: as_html(report(name)), name) for name in names}


def _style() -> str:
    """The styles of a report; its dark colours where the reader has made the site dark."""
    page = as_html(Report({}))
    (style,) = re.findall(r'<div class="gradparity">\n<style>(.*?)</style>', page, re.DOTALL)
    dark = DARK.search(page)
    assert dark is not None
    return _without_empty_lines(f"<style>{style}[data-md-color-scheme=slate] .gradparity {dark[1]}</style>")


def _without_empty_lines(element: str) -> str:
    """An empty line would end a block of HTML in Markdown."""
    return re.sub(r"\n\s*\n", "\n", element)


def main() -> None:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
