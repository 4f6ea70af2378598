"""`python -m benchmarks mlx`: which operators are judged, and what is written of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.campaign import RESULTS, Campaign, say
from benchmarks.mlx_sweep.page import page, unexplained, verdict
from benchmarks.mlx_sweep.run import Outcome, about, judged
from benchmarks.run import commit
from parity_tests.harness.report.atomic_file import write_text

PAGE = Path(__file__).parent / "README.md"


def campaign(
    path: Path = RESULTS / "mlx.json", resume: bool = True, operators: Sequence[str] = ()
) -> Campaign[str, Outcome]:
    """The outcomes by operator."""
    return Campaign(path, Outcome, None, "operators", ("name",), items=operators, resume=resume)


def measure_all(console: Console, names: Sequence[str], jobs: int, resume: bool, out: Path) -> int:
    """Judge these operators, or all; return the exit code. Names keep what the results have of the others."""
    from benchmarks.mlx_sweep.table import OPERATORS  # which needs MLX

    its = campaign(out, resume or bool(names), list(OPERATORS))
    its.about = about(commit())
    found = its.keyed(judged(names or its.due(OPERATORS), jobs))
    its.keep(found, lambda name, x: say(console, f"{name}: {verdict(x)}, {x.seconds} s"))
    its.write()
    if its.about["complete"]:
        write_text(PAGE, page(its.about, its.outcomes))
        say(console, f"written: {out} and {PAGE}")
    left = {x.name: rows for x in its.outcomes if (rows := unexplained(x))}
    say(console, *(f"no section of docs/found explains {name}: {', '.join(rows)}" for name, rows in left.items()))
    return its.exit_code(bool(left))
