"""The run of `python -m benchmarks faults`: its progress, and the files that it writes after every cell."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.fault_benchmark.page import as_markdown, plot, summary
from benchmarks.fault_benchmark.run import Cell, Key, measure, read, read_about, waiting, write
from benchmarks.fault_benchmark.tally import bars
from benchmarks.run import commit, facts
from parity_tests.harness.report.atomic_file import write_text

MET, MISSED, INTERRUPTED = 0, 1, 2


def measure_all(console: Console, keys: Sequence[Key], rules: Sequence[str], path: Path, resume: bool) -> int:
    """Measure what the results at `path` do not have, if they are resumed, and write them; the exit code."""
    judging = commit()
    cells = read(path) if resume else {}
    work = [(key, wanted) for key in keys if (wanted := waiting(key, rules, cells))]
    about = _about(judging) if work else read_about(path)
    interrupted = False
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the frameworks, in versions that are wrong on purpose
        task = progress.add_task("", total=len(work))
        try:
            for (key, wanted), (previous, _) in zip(work, [*work[:1], *work], strict=False):
                if key[0] != previous[0]:
                    jax.clear_caches()  # what is compiled for an operator serves no other, and adds up
                progress.update(task, description=escape(", ".join(key)))
                cells[key] = measure(key, wanted, cells.get(key), judging)
                write(about, list(cells.values()), path)
                progress.advance(task)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            torch.set_num_threads(threads)
    _conclude(console, about, list(cells.values()), path)
    missed = any(not met for *_, met in bars(list(cells.values())))
    return INTERRUPTED if interrupted else MISSED if missed else MET


def _about(judging: str | None) -> dict[str, Any]:
    """Return the facts of the run for the results: its date, machine, versions and commit."""
    measured = facts()
    return {key: measured[key] for key in ("date", "machine", "versions")} | {"commit": judging}


def _conclude(console: Console, about: Mapping[str, Any], cells: Sequence[Cell], path: Path) -> None:
    """Write the page and the picture, and show the counts."""
    write_text(path.with_suffix(".md"), as_markdown(about, cells))
    try:
        plot(cells, path.with_suffix(".svg"))
    except ImportError as error:
        console.print(f"no plot: {error}; pip install matplotlib", highlight=False, markup=False)
    for line in summary(cells):
        console.print(line, highlight=False, markup=False)
    for bar, text, met in bars(cells):
        console.print(f"{'met   ' if met else 'MISSED'} {bar}: {text}", highlight=False, markup=False)
    console.print(f"written: {path}, and beside it .md and .svg", highlight=False)
