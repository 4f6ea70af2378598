"""The output of a command: a table or lines, and one line on stderr for what cannot be done."""

from __future__ import annotations

import contextlib
import os
import re
import sys

from rich.console import Group
from rich.text import Text

from parity_tests.harness.report.printable import LEAST, PrintableConsole

_HANGING = 4  # columns by which a line goes on further to the right than it has begun
_WHOLE = ("  replay  ", "  script  ")  # commands, to be copied


class OutputLost(Exception):
    """Standard output cannot be written to: a pipe that nobody reads any more, a full disk."""


class Output(PrintableConsole):
    """Standard output; or stderr, if standard output is for a report."""

    def show(self, *parts: object, **options: object) -> None:
        """Print; on a terminal a long line of text is broken at spaces only, and goes on with an indent.

        Raises:
            OutputLost: it cannot be written.
        """
        try:
            if self.is_terminal:
                parts = tuple(self._hung(part) for part in parts)
            self.print(*parts, **options)  # pyright: ignore[reportArgumentType]
        except OSError as error:
            raise OutputLost(f"standard output cannot be written: {error.strerror or error}") from error

    def _hung(self, part: object) -> object:
        if isinstance(part, Group):
            return Group(*(self._hung(each) for each in part.renderables))  # pyright: ignore[reportArgumentType]
        if not isinstance(part, Text):
            return part
        return Text("\n").join(self._hung_line(line) for line in part.split(allow_blank=True))

    def _hung_line(self, line: Text) -> Text:
        if len(line) <= self.width or line.plain.startswith(_WHOLE):
            return line
        indent = len(line.plain) - len(line.plain.lstrip()) + _HANGING
        breaks, start, room = [], 0, self.width
        for word in re.finditer(r"\S+", line.plain):
            if word.end() - start > room and word.start() > start:
                breaks.append(start := word.start())
                room = max(self.width - indent, LEAST - _HANGING)
        lines = line.divide(breaks)
        for each in lines:
            each.rstrip()
        return Text("\n" + " " * indent).join(lines)

    def on_broken_pipe(self) -> None:
        """Rich would exit with code 1, which says that a candidate disagrees."""
        raise  # it is called where the error is handled


def complain(text: str) -> None:
    """Say on stderr, in a line, what cannot be done; if there is no stderr, nobody can be told."""
    line = Text.assemble(("gradparity:", "bold red"), " ", " ".join(text.splitlines()))
    with contextlib.suppress(OSError):
        Output(stderr=True).print(line, soft_wrap=True, highlight=False)


def tell(text: str) -> None:
    """Say on stderr, in a line, what goes on."""
    with contextlib.suppress(OSError):
        Output(stderr=True).print(Text(" ".join(text.splitlines()), style="dim"), soft_wrap=True, highlight=False)


def flushed() -> bool:
    """Could all that was printed be written? If not, it is dropped, or Python would complain when it ends."""
    try:
        sys.stdout.flush()
        return True
    except (OSError, ValueError, AttributeError):  # None, if what was judged in this process has set it so
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return False
