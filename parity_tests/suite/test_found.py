"""docs/found.md leads to a section of each defect, which has a repro and a text for a report."""

from __future__ import annotations

import re
from pathlib import Path

from parity_tests.cli.commands.found import entries

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((DOCS / "found").glob("*.md"))}
PARTS = ("Title", "Repro", "Actual", "Expected", "Documentation", "Likely cause", "Suggestion", "Versions")


def anchor(heading: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def withdrawn(table: str) -> list[int]:
    """The numbers of rows that were taken back."""
    return [int(number) for number in re.findall(r"^- (\d+): ", table.partition("## Withdrawn")[2], re.MULTILINE)]


def sections(pages: dict[str, str]) -> dict[tuple[int, str, str], str]:
    """The text of each section, by its number, page and anchor."""
    found = {}
    for page, text in pages.items():
        for heading, number, body in re.findall(r"^## ((\d+)\. .*)\n((?:(?!^## ).*\n)*)", text, re.MULTILINE):
            found[int(number), page, anchor(heading)] = body
    return found


def incomplete(section: str) -> list[str]:
    """What a section lacks."""
    report = section.rpartition("**Report**")[2]
    missing = [part for part in PARTS if not re.search(rf"^- {part}: \S", report, re.MULTILINE)]
    return missing + ([] if "```python" in section else ["code"])


def test_each_row_leads_to_its_section():
    table = (DOCS / "found.md").read_text(encoding="utf-8")
    rows = [(entry.number, entry.page.removeprefix("found/"), entry.anchor) for entry in entries(table)]
    numbers = [number for number, *_ in rows]
    assert sorted(numbers + withdrawn(table)) == list(range(1, max(numbers) + 1))
    assert len(rows) == len(re.findall(r"^\| \[", table, re.MULTILINE))
    assert set(rows) == set(sections(PAGES))


def test_in_each_group_the_most_severe_come_first():
    groups = (DOCS / "found.md").read_text(encoding="utf-8").split("\n## ")
    found = [[(entry.severity, entry.number) for entry in entries(group)] for group in groups]
    assert sum(len(each) > 0 for each in found) > 10
    assert found == [sorted(each) for each in found]


def test_each_section_has_a_repro_and_a_report():
    assert {key: lacking for key, text in sections(PAGES).items() if (lacking := incomplete(text))} == {}


def test_the_pages_are_short():
    pages = [*DOCS.glob("*.md"), *(DOCS / "found").glob("*.md")]
    assert {path.name for path in pages if len(path.read_text(encoding="utf-8").splitlines()) > 400} == set()


def test_what_is_missing_is_told():
    page = "# A page\n\n## 1. a.b: c\n\n```python\n```\n\n**Report**, not sent.\n\n- Title: x.\n- Repro:\n"
    (((number, name, place), text),) = sections({"x.md": page}).items()
    assert (number, name, place) == (1, "x.md", "1-ab-c")
    assert incomplete(text) == [
        "Repro",
        "Actual",
        "Expected",
        "Documentation",
        "Likely cause",
        "Suggestion",
        "Versions",
    ]
