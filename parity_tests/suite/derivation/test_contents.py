"""The table of contents, and the numbers of the equations."""

from __future__ import annotations

import re

from parity_tests.suite.derivation import _pages
from parity_tests.suite.derivation._pages import PAGES


def test_every_equation_has_a_number_of_its_own() -> None:
    pages = sorted(path.name for path in _pages.FOLDER.glob("*.md"))
    tags = {page: [int(n) for n in re.findall(r"\\tag\{(\d+)\}", _pages.text(page))] for page in pages}
    numbered = {page: numbers for page, numbers in tags.items() if numbers}
    assert {page: [*numbers] for page, numbers in PAGES.items()}.items() <= numbered.items()
    every = [number for numbers in numbered.values() for number in numbers]
    assert len(every) == len({*every})
    assert min(every) == 1


def test_the_table_of_contents() -> None:
    contents = _pages.text("README.md")
    linked = re.findall(r"^\| \[(\w+\.md)\]\(\1\) \| (?:\((\d+)\)-\((\d+)\))?", contents, re.MULTILINE)
    told = {page: range(int(first), int(last) + 1) for page, first, last in linked if first}
    assert told == PAGES
    assert {page for page, *_ in linked} >= {path.name for path in _pages.FOLDER.glob("*.md")} - {"README.md"}
