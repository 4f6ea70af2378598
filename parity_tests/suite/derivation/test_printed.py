"""What is printed is what is run: an error in a printed equation is noticed, too.

The equations of matrices are read and evaluated. Of the others, which have indices, norms or maps in them, the signs
are compared with those of the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from parity_tests.suite.derivation import _pages, _plant, _print
from parity_tests.suite.derivation._pages import PAGES
from parity_tests.suite.marks import fast

NOT_READ = {19, 20, 21, 44, 45, 60, 61, 62, 115, 116, 117}  # maps, indices
READ = {
    number: page
    for page in ("attn.md", "native.md", "sin.md", "mm.md", "broadcasting.md", "your_own.md", "model.md")
    for number in PAGES[page]
    if number not in NOT_READ
}


def _one_formula(number: int, equation: str) -> bool:
    """Does a line of code with this number have the value of the printed equation?"""
    codes = [line.code for line in _pages.lines(READ[number]) if line.numbers == (number,)]
    assert codes
    printed = _print.of_print(equation)
    return any(_close(printed, _print.of_code(code)) for code in codes)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("page", sorted({*READ.values()}))
def test_print_and_code_are_one_formula(page: str, subtests: pytest.Subtests) -> None:
    for number in (number for number in READ if READ[number] == page):
        with subtests.test(number=number):
            assert _one_formula(number, _pages.equations(page)[number])


def _misprints(equation: str) -> Iterator[str]:
    left, right = equation.rsplit("=", 1)
    yield f"{left}= -({right})"
    for sign in re.finditer(r"[+-]", right):
        other = "-" if sign[0] == "+" else "+"
        yield f"{left}={right[: sign.start()]}{other}{right[sign.end() :]}"
    for mark in (r"^\top", "'"):
        for place in re.finditer(re.escape(mark), right):
            yield f"{left}={right[: place.start()]}{right[place.end() :]}"
    for place in re.finditer(r"\\circ", right):
        yield f"{left}={right[: place.start()]}{right[place.end() :]}"


@fast("sin.md", "mm.md", "broadcasting.md", "your_own.md")
@pytest.mark.parametrize("page", sorted({*READ.values()}))
def test_a_misprint_is_noticed(page: str, subtests: pytest.Subtests) -> None:
    for number in (number for number in READ if READ[number] == page):
        misprints = [*_misprints(_pages.equations(page)[number])]
        with subtests.test(number=number):
            assert misprints
            assert [misprint for misprint in misprints if not _noticed(number, misprint)] == []


def _noticed(number: int, misprint: str) -> bool:
    try:
        return not _one_formula(number, misprint)
    except ValueError as error:
        if "mismatch" not in str(error):
            raise
        return True  # a column and a matrix whose shapes do not fit


@pytest.mark.parametrize("page", PAGES)
def test_the_printed_signs_are_those_of_the_code(page: str) -> None:
    equations = _pages.equations(page)
    assert [*equations] == [*PAGES[page]]
    for number, equation in equations.items():
        code = [_plant.signs(line.code) for line in _pages.lines(page) if number in line.numbers]
        assert _pages.printed_signs(equation) in code, f"({number}): {equation}"


def test_a_sign_changed_in_print_is_noticed() -> None:
    for page in set(PAGES) - set(READ.values()):
        for number, equation in _pages.equations(page).items():
            code = [_plant.signs(line.code) for line in _pages.lines(page) if number in line.numbers]
            left, right = equation.rsplit("=", 1)
            for sign in re.finditer(r"[+-]", re.sub(r"\\text\{.*?\}", lambda m: " " * len(m[0]), right)):
                other = "-" if sign[0] == "+" else "+"
                changed = f"{left}={right[: sign.start()]}{other}{right[sign.end() :]}"
                assert _pages.printed_signs(changed) not in code, changed
