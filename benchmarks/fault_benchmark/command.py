"""The run of `python -m benchmarks faults`: its progress, and the files that it writes after every cell."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import torch
from rich.console import Console
from rich.markup import escape

from benchmarks.campaign import Campaign, about_run, as_json, bar, say, say_bars
from benchmarks.fault_benchmark import run
from benchmarks.fault_benchmark.page import as_markdown, plot, summary
from benchmarks.fault_benchmark.run import Cell, Key, measure, waiting
from benchmarks.fault_benchmark.tally import bars
from benchmarks.fault_benchmark.versions import FORMATS, SIZES, VERSIONS
from benchmarks.run import commit
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.operators.catalogue import MEASURED as OPERATORS


def measure_all(console: Console, keys: Sequence[Key], rules: Sequence[str], path: Path, resume: bool) -> int:
    """Measure what the results at `path` do not have, if they are resumed, and write them; the exit code."""
    its = Cells(path, resume)
    work = [(key, wanted) for key in keys if (wanted := waiting(key, rules, its.kept))]
    if work:
        its.about = {"schema": 1, **about_run(commit=commit()), "operators": run.described(its.operators)}
    keep(console, its, _measured(work, its), len(work))
    write_text(path.with_suffix(".md"), as_markdown(its.about, its.outcomes))
    try:
        plot(its.outcomes, path.with_suffix(".svg"))
    except ImportError as error:
        say(console, f"no plot: {error}; pip install matplotlib")
    say(console, *summary(its.outcomes))
    missed = say_bars(console, bars(its.outcomes))
    say(console, f"written: {path}, and beside it .md and .svg")
    return its.exit_code(missed)


class Cells(Campaign[Key, Cell]):
    """The cells, but for those of operators whose faults or sizes have changed since."""

    def __init__(self, path: Path, resume: bool = True) -> None:
        """Read them, if they are resumed."""
        super().__init__(path, Cell, None, "cells", ("operator", "format", "size", "version"), resume=resume)
        stored = self.about.get("operators", {})
        # The operators that the file has keep its order, wherever they stand in the catalogue.
        self.operators = tuple(sorted(OPERATORS, key=lambda name: [*stored, *OPERATORS].index(name)))
        self.order = run.keys(self.operators, FORMATS, SIZES, VERSIONS).index
        same = {name for name, now in run.described(self.operators).items() if stored.get(name) == now}
        self.kept = {key: cell for key, cell in self.kept.items() if key[0] in same}

    def text(self) -> str:
        """A line for each cell."""
        lines = ",\n  ".join(json.dumps(asdict(cell)) for cell in self.outcomes)
        return f'{as_json(self.about)[:-3]},\n "cells": [\n  {lines}\n ]\n}}\n'


def keep(console: Console, its: Campaign[Any, Any], found: Iterable[tuple[Any, Any]], total: int) -> None:
    """Keep what comes, and show it in a bar; PyTorch has one thread meanwhile, and gives no warnings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with bar(console) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the frameworks, in versions that are wrong on purpose
        task = progress.add_task("", total=total)
        try:
            its.keep(
                found, lambda key, _: progress.update(task, advance=1, description=escape(", ".join(map(str, key))))
            )
        finally:
            torch.set_num_threads(threads)


def _measured(work: Sequence[tuple[Key, Sequence[str]]], its: Cells) -> Iterator[tuple[Key, Cell]]:
    before = None
    for key, wanted in work:
        if key[0] != before:
            jax.clear_caches()  # what is compiled for an operator serves no other, and adds up
        before = key[0]
        yield key, measure(key, wanted, its.kept.get(key), its.about["commit"])
