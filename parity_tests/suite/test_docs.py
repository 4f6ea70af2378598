"""The documents: links lead somewhere, pages are short, and the README's first screen is what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "derivation").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("**/*.md")),
    *sorted((ROOT / "parity_tests/harness/checks/explanations").glob("*.md")),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> Iterator[str]:
    """The targets of the links to files of the repository."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


def test_links_lead_to_files():
    missing = [(page.name, to) for page in PAGES for to in links(page) if not (page.parent / to).exists()]
    assert not missing


def test_pages_are_short():
    lines = {str(page.relative_to(ROOT)): len(page.read_text(encoding="utf-8").splitlines()) for page in PAGES}
    assert lines.pop("README.md") <= 120
    assert len(lines) > 90
    assert {name: count for name, count in lines.items() if count > 400} == {}


def test_code_is_not_taken_to_court():
    """A function fails a check, or is wrong; see "Plain English" in CONTRIBUTING.md, which quotes the words."""
    court = re.compile(r"\b(convict|accus|guilty|innocent|stands? trial)", re.IGNORECASE)
    pages = [page for page in PAGES if page.name != "CONTRIBUTING.md" and page.parent.name != "results"]
    assert {str(page): words for page in pages if (words := court.findall(page.read_text(encoding="utf-8")))} == {}


def test_pictures_say_what_they_show():
    images = [(page.name, text) for page in PAGES for text in re.findall(r"!\[([^\]]*)\]\(", page.read_text("utf-8"))]
    assert len(images) >= 3
    assert all(len(text.split()) >= 4 for _, text in images), images


def test_a_dead_link_would_be_noticed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("[a](gone.md#x) [b](page.md) `[c](code.md)` [d](https://e.f/g)\n```\n[e](fenced.md)\n```\n")
    assert [target for target in links(page) if not (tmp_path / target).exists()] == ["gone.md"]
