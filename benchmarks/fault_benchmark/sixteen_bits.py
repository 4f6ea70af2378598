"""Mistakes that are near a rounding of 16 bits: how many crosscheck catches, and which right versions it accuses.

The run of `python -m benchmarks sixteen-bits`.
"""

from __future__ import annotations

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
from benchmarks.fault_benchmark.versions import (
    MORE_VERSIONS,
    VERSIONS,
    arguments,
    below_rounding,
    exact_with,
    reference,
    version,
)
from benchmarks.run import commit
from parity_tests.operators.catalogue import SUBTLE
from parity_tests.operators.operator import Operator

FORMATS = ("bfloat16", "float16")
WITH_MISTAKES = VERSIONS[:2]  # the others have PyTorch's own backward, or differ in what they round alone
# Versions that are not right, and why.
LEFT_OUT = {("capped attention, online softmax", "torch.compile"): "the compiled gradient is NaN where eager's is not"}
CAUGHT = 0.95  # of the mistakes in float32 inside, in each format; of code that rounds everything no bar is set


@dataclass(frozen=True)
class Judged:
    """The verdicts of crosscheck on an operator in a format at a size.

    Attributes:
        rejected: the right versions that are not PASS, with their verdicts.
        versions: how many right versions there are.
        missed: the mistakes that are PASS, by version; below: those that change each exact result by less than half a
            unit of its last place, which are not counted.
        mistakes: how many mistakes are counted.
    """

    operator: str
    format: str
    size: str
    rejected: Mapping[str, tuple[str, ...]]
    versions: int
    missed: Mapping[str, tuple[str, ...]]
    below: tuple[str, ...]
    mistakes: int


def judge(name: str, format: str, size: str) -> Judged:
    """Judge all versions of an operator, the right ones and those with a mistake."""
    operator, right = SUBTLE[name], [v for v in (*VERSIONS, *MORE_VERSIONS) if (name, v) not in LEFT_OUT]
    inputs = arguments(operator, size, format)
    below = _below(operator, format, size)
    counted = {fault: mistake for fault, mistake in operator.faults.items() if fault not in below}
    torch._dynamo.reset()
    calls = {each: version(operator, each) for each in right}
    calls |= {
        f"{each}: {name}": version(operator, each, fault) for each in WITH_MISTAKES for name, fault in counted.items()
    }
    found = parity.judged(calls, operator, inputs)
    rejected = {each: tuple(sorted(found[each].verdicts)) for each in right if found[each].verdicts - {"PASS"}}
    missed = {
        each: tuple(fault for fault in counted if not found[f"{each}: {fault}"].rejected_by(parity.SUSPECTED))
        for each in WITH_MISTAKES
    }
    return Judged(name, format, size, rejected, len(right), missed, below, len(counted))


def _below(operator: Operator, format: str, size: str) -> tuple[str, ...]:
    inputs = arguments(operator, size, format)
    exact = reference(operator, inputs, size)
    wrong = {fault: exact_with(operator, mistake, inputs, size) for fault, mistake in operator.faults.items()}
    return tuple(name for name, x in wrong.items() if below_rounding(x, exact, format))


def judge_all(operators: Sequence[str], sizes: Sequence[str]) -> Iterator[Judged]:
    """Judge each operator in both formats at each size."""
    for size in sizes:
        for name in operators:
            jax.clear_caches()  # what is compiled for an operator serves no other, and adds up
            yield from (judge(name, format, size) for format in FORMATS)


def measure_all(console: Console, operators: Sequence[str], sizes: Sequence[str], path: Path) -> int:
    """Judge, write what was found after each operator, and show the counts; the exit code."""
    its = campaign(path, resume=False)
    its.about = about_run(commit=commit())
    keep(console, its, its.keyed(judge_all(operators, sizes)), len(operators) * len(sizes) * len(FORMATS))
    say(console, summary(its.outcomes))
    return its.exit_code(not is_met(its.outcomes))


def campaign(path: Path, resume: bool = True) -> Campaign[tuple[str, str, str], Judged]:
    """The verdicts by operator, format and size."""
    fields = "operator", "format", "size"
    return Campaign(path, Judged, page, "judged", fields, resume=resume)


def is_met(found: Sequence[Judged]) -> bool:
    """Return whether enough mistakes in float32 inside are caught in each format, and no right version is rejected."""
    counts = [_caught([j for j in found if j.format == format], WITH_MISTAKES[0]) for format in FORMATS]
    return not any(j.rejected for j in found) and all(caught >= CAUGHT * of for caught, of in counts)


def _caught(found: Sequence[Judged], each: str) -> tuple[int, int]:
    of = sum(j.mistakes for j in found)
    return of - sum(len(j.missed[each]) for j in found), of


def summary(found: Sequence[Judged]) -> str:
    """Lines: the mistakes that are caught by format, size and version, the right versions that are rejected, and all
    that are missed.
    """
    lines = []
    for format in FORMATS:
        for size in dict.fromkeys(j.size for j in found):
            here = [j for j in found if (j.format, j.size) == (format, size)]
            counts = {each: "{} of {}".format(*_caught(here, each)) for each in WITH_MISTAKES}
            lines.append(f"{format}, {size}: caught " + "; ".join(f"{each} {count}" for each, count in counts.items()))
    versions = sum(j.versions for j in found)
    rejected = [
        f"{j.operator}, {j.format}, {j.size}: {each} {', '.join(v)}" for j in found for each, v in j.rejected.items()
    ]
    lines += ["", f"right versions rejected: {len(rejected)} of {versions}", *rejected, "", "missed:"]
    for j in found:
        lines += [f"{j.operator}, {j.format}, {j.size}, {each}: {name}" for each in j.missed for name in j.missed[each]]
    below = sum(len(j.below) for j in found)
    left_out = [
        f"left out: {', '.join(key)}: {why}" for key, why in LEFT_OUT.items() if key[0] in {j.operator for j in found}
    ]
    return "\n".join([*lines, "", f"below rounding, and not counted: {below}", *left_out])


def page(about: Mapping[str, Any], found: Sequence[Judged]) -> str:
    """A page with the summary."""
    return (
        "# Mistakes near a rounding of 16 bits\n\n"
        f"Written by `python -m benchmarks sixteen-bits`; {about['date']}; commit {about['commit']}; "
        f"{listed(about['versions'])}.\n"
        "Ten operators, one of them with an online softmax besides, with five mistakes each, judged by `crosscheck`\n"
        "at given arrays: outputs, VJP and low_precision; MISMATCH and SUSPECT count. Right versions: float32 inside,\n"
        "the format throughout, `torch.compile`, operands of products rounded, sums split, what is saved rounded,\n"
        "eager. A mistake below the noise of code that rounds every operation cannot be seen in such code.\n\n"
        f"```\n{summary(found)}\n```\n"
    )
