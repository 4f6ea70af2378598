"""`gradparity captures`: what the backward of a formula captures, as a table, with the fix of what is wrong."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from parity_tests.cli.case_file import CaseError, load_module
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
    formula = _resolve(target)
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


def _resolve(target: str) -> Callable:
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise CaseError(f"{target}: give module:Name or file.py:Name")
    if where.endswith(".py"):
        module = load_module(Path(where))
    else:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        try:
            module = importlib.import_module(where)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit(), too
            said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
            raise CaseError(f"{where}: {said}") from error
        finally:
            sys.path.pop(0)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CaseError(f"{target}: {where} has no function or class {name}")
    return found


def _table(target: str, found: list[Capture], path: str) -> Table:
    grid = Table("formula", "captures", "line", "which is", "second order", title=escape(target), title_justify="left")
    grid.caption, grid.caption_justify = escape(f"lines of {path}"), "left"
    for c in found:
        effect = f"[{_STYLE[c.effect]}]{c.effect.value}[/]"
        grid.add_row(escape(c.by), escape(c.name), str(c.line), escape(c.reason), effect)
    return grid
