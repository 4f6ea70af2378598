"""A bar that shows how far a run is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from parity_tests.harness.report.printable import PrintableConsole
from parity_tests.harness.report.results import Row


def bar(length: int, console: Console | None = None) -> tuple[Progress, Callable[[Row], None]]:
    """A bar for so many rows, and the function that moves it on by one."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task: TaskID = progress.add_task("certifying the oracle", total=length)

    def move_on(row: Row) -> None:
        progress.update(task, advance=1, description=f"{escape(row.candidate)} {row.dtype} {row.check}")

    return progress, move_on


@contextlib.contextmanager
def shown(length: int, wanted: bool) -> Iterator[Callable[[Row], None]]:
    """A bar on stderr while the block runs, if it is wanted and stderr is a terminal."""
    console = PrintableConsole(stderr=True)
    if not (wanted and console.is_terminal):
        yield lambda row: None
        return
    progress, move_on = bar(length, console)
    with progress:
        yield move_on
