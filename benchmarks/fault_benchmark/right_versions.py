"""Right versions at many seeds: how often crosscheck accuses one. The run of `python -m benchmarks right-versions`."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.fault_benchmark import parity
from benchmarks.fault_benchmark.catalog import OPERATORS
from benchmarks.fault_benchmark.operator import version
from benchmarks.fault_benchmark.run import versions_of
from benchmarks.run import commit, facts
from parity_tests.harness.report.atomic_file import write_text

FORMATS = ("float32", "bfloat16", "float16")
CLEAN, ALARMS, INTERRUPTED = 0, 1, 2


@dataclass(frozen=True)
class Judged:
    """The verdicts on the right versions of an operator in a format at a seed.

    `verdicts`: those of outputs, of the VJP and of low_precision, by version.
    """

    operator: str
    format: str
    seed: int
    verdicts: Mapping[str, tuple[str, ...]]

    @property
    def alarms(self) -> list[str]:
        """The versions that are accused."""
        return [name for name, found in self.verdicts.items() if {"MISMATCH", "SUSPECT", "ERROR"} & {*found}]


def judge(operators: Sequence[str], seeds: int, size: str, formats: Sequence[str] = FORMATS) -> Iterator[Judged]:
    """Judge every right version in each of the formats at each seed."""
    for name in operators:
        jax.clear_caches()  # what is compiled for an operator serves no other, and adds up
        for format in formats:
            torch._dynamo.reset()
            operator = OPERATORS[name]
            calls = {each: version(operator, each) for each in versions_of(format)}
            for seed in range(seeds):
                found = parity.judged(calls, operator, operator.arguments(size, format, seed))
                verdicts = {each: tuple(sorted(judged.verdicts)) for each, judged in found.items()}
                yield Judged(name, format, seed, verdicts)


def measure_all(
    console: Console,
    operators: Sequence[str],
    seeds: int,
    size: str,
    path: Path,
    formats: Sequence[str] = FORMATS,
) -> int:
    """Judge, write what was found after each operator, and show the counts; the exit code."""
    measured = facts()
    about = {key: measured[key] for key in ("date", "machine", "versions")} | {"commit": commit(), "size": size}
    found: list[Judged] = []
    interrupted, threads = False, torch.get_num_threads()
    torch.set_num_threads(1)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = progress.add_task("", total=len(operators) * len(formats) * seeds)
        try:
            for judged in judge(operators, seeds, size, formats):
                found.append(judged)
                progress.update(task, advance=1, description=escape(f"{judged.operator}, {judged.format}"))
                if judged.seed == seeds - 1:
                    write(about, found, path)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            torch.set_num_threads(threads)
            write(about, found, path)
    console.print(summary(found), highlight=False, markup=False)
    accused = any(judged.alarms for judged in found)
    return INTERRUPTED if interrupted else ALARMS if accused else CLEAN


def summary(found: Sequence[Judged]) -> str:
    """A line: how many right versions were judged, and how many of them were accused or could not be judged."""
    versions = sum(len(judged.verdicts) for judged in found)
    verdicts = Counter(verdict for judged in found for each in judged.verdicts.values() for verdict in each)
    accused = [f"{j.operator}, {j.format}, seed {j.seed}: {', '.join(j.alarms)}" for j in found if j.alarms]
    counts = ", ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
    line = f"{versions} right versions of {len({judged.operator for judged in found})} operators: {counts}"
    return "\n".join([line, f"{len(accused)} alarms", *accused])


def write(about: Mapping[str, Any], found: Sequence[Judged], path: Path) -> None:
    """Write the results, and beside them a page with the summary."""
    cells = [asdict(judged) for judged in found]
    write_text(path, json.dumps({**about, "judged": cells}, indent=1, ensure_ascii=False) + "\n")
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    seeds = 1 + max((judged.seed for judged in found), default=-1)
    formats = ", ".join(dict.fromkeys(judged.format for judged in found))
    page = (
        "# Right versions at many seeds\n\n"
        f"Written by `python -m benchmarks right-versions`; {about['date']}; commit {about['commit']}; {versions}.\n"
        f"Each operator of the fault benchmark, {about['size']}, at {seeds} seeds in {formats}: float32 "
        "inside,\nthe format throughout, and `torch.compile`; their outputs, their VJP, and low_precision.\n\n"
        f"```\n{summary(found)}\n```\n"
    )
    write_text(path.with_suffix(".md"), page)
