"""`python -m benchmarks mlx`: which operators are judged, and what is written of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.mlx_sweep.page import page, unexplained, verdict
from benchmarks.mlx_sweep.run import PAGE, about, judged, read, write
from benchmarks.mlx_sweep.table import OPERATORS
from benchmarks.run import commit
from parity_tests.harness.report.atomic_file import write_text


def measure_all(console: Console, names: Sequence[str], jobs: int, resume: bool, out: Path) -> int:
    """Judge these operators, or all; return the exit code. Names keep what the results have of the others."""
    outcomes = {name: x for name, x in read(out).items() if name in OPERATORS} if resume or names else {}
    facts = about(commit())
    for outcome in judged([x for x in names or OPERATORS if names or x not in outcomes], jobs):
        outcomes[outcome.name] = outcome
        write(out, facts, [outcomes[name] for name in OPERATORS if name in outcomes])
        console.print(f"{outcome.name}: {verdict(outcome)}, {outcome.seconds} s", highlight=False, markup=False)
    every = [outcomes[name] for name in OPERATORS if name in outcomes]
    write(out, facts, every)
    if len(every) == len(OPERATORS):
        write_text(PAGE, page(facts, every))
        console.print(f"written: {out} and {PAGE}", highlight=False)
    left = {x.name: rows for x in every if (rows := unexplained(x))}
    for name, rows in left.items():
        console.print(f"no section of docs/found explains {name}: {', '.join(rows)}", highlight=False, markup=False)
    return 1 if left else 0
