"""A changed sign or a dropped term, in any numbered equation of any page, makes the page fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from parity_tests.suite.derivation import _pages, _plant
from parity_tests.suite.derivation._pages import Line

PAGES = {
    "attn.md": range(1, 25),
    "native.md": range(25, 33),
    "sin.md": range(33, 40),
    "mm.md": range(40, 52),
    "broadcasting.md": range(52, 63),
    "second_order.md": range(63, 73),
    "complex.md": range(73, 77),
    "undefined.md": range(77, 80),
    "numerics.md": range(80, 89),
    "testing.md": range(89, 96),
    "your_own.md": range(96, 104),
}


def _source(page: str) -> str:
    """What is run with errors in it: a page up to its section on cost. native.md goes on from attn.md."""
    if page != "native.md":
        return _pages.text(page).split("## Cost")[0]
    derived = [f"```python\n{block.lstrip()}```\n" for block in _pages.blocks(page) if "def double_backward" in block]
    assert len(derived) == 1
    return f"{_source('attn.md')}\n\n{derived[0]}"


def _with(source: str, line: Line, code: str) -> str:
    original = f"{line.code}  # {', '.join(f'({n})' for n in line.numbers)}"
    rows = [i for i, row in enumerate(source.splitlines()) if row.strip() == original]
    assert rows, f"{line} is not in what is run"
    changed = source.splitlines()
    for i in rows if line.page != "native.md" else rows[-1:]:
        changed[i] = changed[i].replace(original, code)
    return "\n".join(changed) + "\n"


def _fails(page: str, source: str) -> bool:
    namespace: dict = {_plant.NEGATED: _plant.negated}
    try:
        for block in _pages.blocks(page, source):
            exec(_pages.compiled(block, page), namespace)
    except AssertionError:
        return True
    return False


def _planted(page: str) -> Iterator[tuple[Line, str, str]]:
    for line in _pages.lines(page):
        if page == "native.md" and max(line.numbers) < 25:
            continue  # an equation of attn.md once more
        for what, code in _plant.planted(line.code):
            yield line, what, code


def _survivors(page: str, planted: Iterator[tuple[Line, str, str]]) -> list[str]:
    source = _source(page)
    assert not _fails(page, source), "it must hold as it is"
    return [
        f"{page}:{line.row} {line.numbers}: {what}: {code}"
        for line, what, code in planted
        if not _fails(page, _with(source, line, code))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_an_error_in_any_equation_is_noticed(page: str) -> None:
    assert _survivors(page, _planted(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_errors_are_planted_in_every_equation(page: str) -> None:
    assert {number for line, *_ in _planted(page) for number in line.numbers} >= {*PAGES[page]}


def test_a_harmless_change_survives() -> None:
    """The test above could not fail if whatever is changed made a page fail."""
    line = next(line for line in _pages.lines("sin.md") if line.numbers == (34,))
    same = [(line, "nothing changed", line.code), (line, "another order", "return [x_dot * np.cos(x)]")]
    assert len(_survivors("sin.md", iter(same))) == 2


# What is printed: its signs are those of the code, so that an error in either one is noticed.


@pytest.mark.parametrize("page", PAGES)
def test_the_printed_signs_are_those_of_the_code(page: str) -> None:
    equations = _pages.equations(page)
    assert [*equations] == [*PAGES[page]]
    for number, equation in equations.items():
        code = [_plant.signs(line.code) for line in _pages.lines(page) if number in line.numbers]
        assert _pages.printed_signs(equation) in code, f"({number}): {equation}"


def test_a_sign_changed_in_print_is_noticed() -> None:
    equation = _pages.equations("attn.md")[14]
    assert _pages.printed_signs(equation) == "-"
    assert _pages.printed_signs(equation.replace("-2", "2")) == ""
    assert _pages.printed_signs(_pages.equations("attn.md")[22].replace("+", "-", 1)) == "-++"


def test_every_equation_has_a_number_of_its_own() -> None:
    pages = sorted(path.name for path in _pages.FOLDER.glob("*.md"))
    tags = {page: [int(n) for n in re.findall(r"\\tag\{(\d+)\}", _pages.text(page))] for page in pages}
    numbered = {page: numbers for page, numbers in tags.items() if numbers}
    assert {page: [*numbers] for page, numbers in PAGES.items()}.items() <= numbered.items()
    every = [number for numbers in numbered.values() for number in numbers]
    assert sorted(every) == [*range(1, len(every) + 1)]


def test_the_table_of_contents() -> None:
    contents = _pages.text("README.md")
    linked = re.findall(r"^\| \[(\w+\.md)\]\(\1\) \| (?:\((\d+)\)-\((\d+)\))?", contents, re.MULTILINE)
    told = {page: range(int(first), int(last) + 1) for page, first, last in linked if first}
    assert told == PAGES
    assert {page for page, *_ in linked} >= {path.name for path in _pages.FOLDER.glob("*.md")} - {"README.md"}
