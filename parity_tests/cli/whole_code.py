"""Markdown on a terminal whose lines of code are left whole, so that they can be copied."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.syntax import Syntax


class _WholeLines(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).rstrip())
        text.no_wrap, text.overflow = True, "ignore"
        yield from ("", text)


class WithWholeCode(Markdown):
    """Text is wrapped as ever; print it with `crop=False`."""

    elements = Markdown.elements | {"fence": _WholeLines, "code_block": _WholeLines}
