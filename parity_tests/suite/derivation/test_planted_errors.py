"""A changed sign or a dropped term, in any numbered equation of any page, makes the page fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parity_tests.suite.derivation import _pages, _plant
from parity_tests.suite.derivation._pages import PAGES, Line
from parity_tests.suite.marks import fast


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


@fast("sin.md", "mm.md", "broadcasting.md", "complex.md", "undefined.md", "your_own.md")
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
