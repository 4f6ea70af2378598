"""`gradparity captures`: what the backward of a formula captures, as a table, with the fix of what is wrong."""

from __future__ import annotations

import inspect

from rich.markup import escape
from rich.table import Table

from parity_tests.cli.callables import callable_of
from parity_tests.harness.captures.captures import Capture, Effect, captures
from parity_tests.harness.report.printable import PrintableConsole

_STYLE = {Effect.FINE: "green", Effect.WRONG: "bold red", Effect.UNKNOWN: "bold yellow"}


def show_captures(target: str) -> int:
    """Print what a formula captures.

    Args:
        target: `module:Name` or `file.py:Name`, of a `torch.autograd.Function` or a function that returns closures.

    Returns:
        The exit code: 0 all fine, 1 some wrong at second order, 2 some cannot be told.

    Raises:
        CaseError: there is no such thing, or it is no formula.
        Unreadable: there is no source to read.
    """
    formula = callable_of(target)
    found, console = captures(formula), PrintableConsole()
    if found:
        console.print(_table(target, found, str(inspect.getsourcefile(inspect.unwrap(formula)))))
    else:
        console.print(f"{escape(target)} captures nothing", soft_wrap=True, highlight=False)
    for c in found:
        if c.fix:
            console.print(
                f"[bold]{escape(c.by)}: {escape(c.name)}[/]  {escape(c.fix)}", soft_wrap=True, highlight=False
            )
    effects = {c.effect for c in found}
    return 1 if Effect.WRONG in effects else 2 * (Effect.UNKNOWN in effects)


def _table(target: str, found: list[Capture], path: str) -> Table:
    grid = Table("formula", "captures", "line", "which is", "second order", title=escape(target), title_justify="left")
    grid.caption, grid.caption_justify = escape(f"lines of {path}"), "left"
    for c in found:
        effect = f"[{_STYLE[c.effect]}]{c.effect.value}[/]"
        grid.add_row(escape(c.by), escape(c.name), str(c.line), escape(c.reason), effect)
    return grid
