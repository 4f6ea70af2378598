"""The pages of the book as data: their code blocks, their printed equations, and the code lines that carry a number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import derivation

FOLDER = Path(derivation.__file__).parent
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
    "model.md": range(104, 118),
    "sharding.md": range(118, 126),
}
CASE = "your_own.md"  # its last block is a file of its own


@dataclass(frozen=True)
class Line:
    """A line of code, in a function, that is one or several numbered equations.

    Attributes:
        page: the name of the page's file.
        row: counted from 1 in the page.
        numbers: the equations that it is.
        code: the statement, without the comment and the indentation.
    """

    page: str
    row: int
    numbers: tuple[int, ...]
    code: str


def text(page: str) -> str:
    return (FOLDER / page).read_text(encoding="utf-8")


def blocks(page: str, source: str | None = None) -> list[str]:
    """The Python blocks, with as many empty lines before each as it has lines of the page before it."""
    source = text(page) if source is None else source
    found = [*re.finditer(r"^```python\n(.*?)^```", source, re.DOTALL | re.MULTILINE)]
    if page == CASE:
        found = [block for block in found if "import torch" not in block[1]]
    return ["\n" * source[: block.start(1)].count("\n") + block[1] for block in found]


def lines(page: str) -> list[Line]:
    """The code lines with nothing but numbers in their comment."""
    result = []
    for block in blocks(page):
        for row, line in enumerate(block.splitlines(), 1):
            match = re.fullmatch(r" +(.*?)  # (\(\d+\)(?:, \(\d+\))*)", line)
            if match:
                numbers = tuple(int(number) for number in re.findall(r"\d+", match[2]))
                result.append(Line(page, row, numbers, match[1]))
    return result


def equations(page: str) -> dict[int, str]:
    """The numbered equations, as printed, without their reasons."""
    printed = re.findall(r"^\$\$(.*?)\\qquad (?:.*?)\\tag\{(\d+)\}\$\$$", text(page), re.MULTILINE)
    return {int(number): equation.strip() for equation, number in printed}


def printed_signs(equation: str) -> str:
    """The plus and minus signs right of a printed equation's last equality sign."""
    right = re.sub(r"\\text\{.*?\}", "", equation).split("=")[-1].replace(r"\pm", "+")
    return "".join(re.findall(r"[+-]", right))


def compiled(source: str, page: str) -> CodeType:
    return compile(source, str(FOLDER / page), "exec")


def run(page: str, source: str | None = None) -> dict:
    """Run the blocks of a page, in order, in one namespace, which is returned.

    Raises:
        AssertionError: an equation of the page does not hold.
    """
    namespace: dict = {}
    for block in blocks(page, source):
        exec(compiled(block, page), namespace)
    return namespace
