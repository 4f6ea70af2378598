"""Text of others on a terminal: control characters in names, messages and paths are shown, and have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment

# Control characters but for tabs and ends of lines, those that reverse the direction of text, and lone surrogates.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

LEAST = 20  # columns of a terminal
_USUAL = 80


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""The text with escapes, such as \x1b, for what a terminal would obey, and for what an encoding does not have."""
    text = _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def in_a_line(text: str) -> str:
    """The text as `printable` has it, in one line."""
    return printable(" ".join(text.splitlines()))


class PrintableConsole(Console):
    """A console on which nothing but rich's own styles reaches the terminal as an escape sequence.

    A width below `LEAST` columns, at which rich leaves out text, is taken for that; 0, which nobody has, for no width.
    """

    @property
    def size(self) -> ConsoleDimensions:
        """The columns and lines."""
        width, height = super().size
        return ConsoleDimensions(max(width, LEAST) if width > 0 else _USUAL, height)

    @size.setter
    def size(self, new: tuple[int, int]) -> None:
        Console.size.fset(self, new)  # pyright: ignore[reportOptionalCall]

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with what cannot be printed escaped."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, self.encoding), segment.style)
