"""The page of a sweep: whole in one file, and nothing in it can be taken for markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from parity_tests.sweep.families import family_of
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Finding, Line, Verdict
from parity_tests.sweep.page import as_html
from parity_tests.sweep.results_file import Header, Results

EVIL = "</td><script>alert(1)</script>"
FINDING = Finding("x = 0", (0, 1), "1.5", "2.5", "[2, 3]", f"differences {EVIL}", "print(1 < 2)")
LINES = [
    Line("abs", "vjp", "self", "float64", Verdict.AGREES, calls=3, seconds=1.25),
    Line("tan", "jvp", "result", "complex128", Verdict.WRONG_IN_PYTORCH, reason=EVIL, finding=FINDING),
    Line("sum", "vjp", "*", "float64", Verdict.UNREACHED, reason="crashed (SIGSEGV)"),
]
VOID = {"meta", "input", "link", "img", "br"}


class Tree(HTMLParser):
    """The elements of a page, and whether each is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    header = Header.of(["vjp", "jvp"], ["float64", "complex128"], Limits())
    return as_html(Results(header, {line.operator: [line] for line in LINES}))


@pytest.fixture(scope="module")
def tree(page: str) -> Tree:
    parsed = Tree()
    parsed.feed(page)
    assert parsed.open == []
    return parsed


def test_nothing_is_loaded_from_elsewhere(page: str, tree: Tree) -> None:
    assert not re.search(r"https?://|url\(|@import", page)
    assert not [tag for tag, attributes in tree.elements if {"src", "href"} & set(attributes)]
    assert [tag for tag, _ in tree.elements].count("script") == 1


def test_each_line_is_a_row_that_can_be_filtered_by(tree: Tree) -> None:
    rows = [attributes for tag, attributes in tree.elements if tag == "tr" and attributes]
    names = ("operator", "family", "mode", "dtype", "verdict")
    assert [tuple(row[f"data-{name}"] for name in names) for row in rows] == [
        ("tan", "pointwise", "jvp", "complex128", "wrong in PyTorch"),
        ("sum", "reductions", "vjp", "float64", "cannot be reached"),
        ("abs", "pointwise", "vjp", "float64", "agrees"),
    ]
    assert [a["name"] for tag, a in tree.elements if tag in ("select", "input")] == [
        *("verdict", "family", "mode", "dtype", "operator", "text")
    ]


def test_the_family_is_that_of_the_operator_for_one_tensor() -> None:
    assert family_of("_foreach_add_.Scalar") == family_of("add.Tensor") == "pointwise"
    assert family_of("sum.dim_IntList") == "reductions"
    assert family_of("_no_such_operator") == "without a reference"


def test_a_finding_has_all_that_is_known(tree: Tree) -> None:
    text = " ".join(" ".join(tree.text).split())
    for part in ("point x = 0", "place [0, 1]", "PyTorch 1.5", "JAX 2.5", "right [2, 3]", "print(1 < 2)"):
        assert part in text
    assert f"witness differences {EVIL}" in text
    assert "crashed (SIGSEGV)" in text


def test_it_follows_the_scheme_and_fits_a_narrow_window(page: str, tree: Tree) -> None:
    assert "color-scheme: light dark" in page
    assert "prefers-color-scheme: dark" in page
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tree.elements
    declared = set(re.findall(r"(--\w+):", page))
    assert set(re.findall(r"var\((--\w+)\)", page)) <= declared
