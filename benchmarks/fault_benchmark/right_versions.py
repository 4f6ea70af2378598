"""Right versions at many seeds: how often crosscheck accuses one. The run of `python -m benchmarks right-versions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import torch
from rich.console import Console

from benchmarks.campaign import Campaign, about_run, listed, say
from benchmarks.fault_benchmark import parity
from benchmarks.fault_benchmark.command import keep
from benchmarks.fault_benchmark.run import versions_of
from benchmarks.fault_benchmark.versions import arguments, version
from benchmarks.run import commit
from parity_tests.operators.catalogue import MEASURED as OPERATORS

FORMATS = ("float32", "bfloat16", "float16")


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
                found = parity.judged(calls, operator, arguments(operator, size, format, seed))
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
    its = campaign(path, resume=False)
    its.about = about_run(commit=commit(), size=size)
    keep(console, its, its.keyed(judge(operators, seeds, size, formats)), len(operators) * len(formats) * seeds)
    say(console, summary(its.outcomes))
    return its.exit_code(any(judged.alarms for judged in its.outcomes))


def campaign(path: Path, resume: bool = True) -> Campaign[tuple[str, str, int], Judged]:
    """The verdicts by operator, format and seed."""
    fields = "operator", "format", "seed"
    return Campaign(path, Judged, page, "judged", fields, resume=resume)


def summary(found: Sequence[Judged]) -> str:
    """A line: how many right versions were judged, and how many of them were accused or could not be judged."""
    versions = sum(len(judged.verdicts) for judged in found)
    verdicts = Counter(verdict for judged in found for each in judged.verdicts.values() for verdict in each)
    accused = [f"{j.operator}, {j.format}, seed {j.seed}: {', '.join(j.alarms)}" for j in found if j.alarms]
    counts = ", ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
    line = f"{versions} right versions of {len({judged.operator for judged in found})} operators: {counts}"
    return "\n".join([line, f"{len(accused)} alarms", *accused])


def page(about: Mapping[str, Any], found: Sequence[Judged]) -> str:
    """A page with the summary."""
    seeds = 1 + max((judged.seed for judged in found), default=-1)
    formats = ", ".join(dict.fromkeys(judged.format for judged in found))
    return (
        "# Right versions at many seeds\n\n"
        f"Written by `python -m benchmarks right-versions`; {about['date']}; commit {about['commit']}; "
        f"{listed(about['versions'])}.\n"
        f"Each operator of the fault benchmark, {about['size']}, at {seeds} seeds in {formats}: float32 "
        "inside,\nthe format throughout, and `torch.compile`; their outputs, their VJP, and low_precision.\n\n"
        f"```\n{summary(found)}\n```\n"
    )
