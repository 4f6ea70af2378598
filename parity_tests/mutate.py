"""`gradparity mutate`: the kill matrix of a spec, with progress, as a table and as data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from parity_tests.harness.checks import Check
from parity_tests.harness.kill_matrix import Fate, KillMatrix, Outcome
from parity_tests.harness.spec import OpSpec
from parity_tests.harness.whole_file import write_text

_STYLE = {Fate.KILLED: "green", Fate.SURVIVED: "bold red", Fate.EQUIVALENT: "dim", Fate.BROKEN: "bold yellow"}
_OTHERS = (Fate.EQUIVALENT, Fate.SURVIVED, Fate.BROKEN)


def judge_mutants(spec: OpSpec, checks: Sequence[Check], seed: int, json_path: Path | None) -> int:
    """Judge every mutant, print the table, write the data.

    Returns:
        The exit code: 0 none survives, 1 some do, 2 something could not run.

    Raises:
        OracleError, NoRule, NotFloat64: the spec cannot judge.
        ValueError: a folder that is not there, or nothing to mutate.
    """
    if json_path is not None and not json_path.parent.is_dir():
        raise ValueError(f"--json {json_path}: there is no folder {json_path.parent}")
    console, matrix, outcomes = Console(), KillMatrix(spec, checks, seed), []
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True
    )
    with progress:
        task = progress.add_task(spec.name, total=len(matrix.mutations))
        for outcome in matrix.outcomes():
            outcomes.append(outcome)
            mutation = outcome.mutation
            progress.update(task, advance=1, description=f"{spec.name} {mutation.map}: {mutation.kind}")
    console.print(_table(spec, outcomes))
    console.print(_summary(outcomes), soft_wrap=True, highlight=False)
    if json_path is not None:
        write_text(json_path, json.dumps(_data(spec, seed, outcomes), indent=2))
    fates = {outcome.fate for outcome in outcomes}
    return 2 if Fate.BROKEN in fates else int(Fate.SURVIVED in fates)


def _table(spec: OpSpec, outcomes: Sequence[Outcome]) -> Table:
    """Mistakes x checks: how many each has killed first."""
    killers = list(dict.fromkeys(o.check for o in outcomes if o.fate is Fate.KILLED))
    grid = Table(
        title=Text(f"{spec.name}: mutants of its derivatives, and what kills them first"), title_justify="left"
    )
    grid.add_column("mistake")
    fates = [fate for fate in _OTHERS if any(o.fate is fate for o in outcomes)]
    for column in (*killers, *fates):
        grid.add_column(column, justify="right")
    for name, kind in dict.fromkeys((o.mutation.map, o.mutation.kind) for o in outcomes):
        row = [o for o in outcomes if (o.mutation.map, o.mutation.kind) == (name, kind)]
        counts = Counter(o.check or o.fate for o in row)
        cells = (Text(str(counts[k] or ""), style=_STYLE[Fate.KILLED]) for k in killers)
        others = (Text(str(counts[fate] or ""), style=_STYLE[fate]) for fate in fates)
        grid.add_row(f"{name}: {kind}", *cells, *others)
    return grid


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(o.fate for o in outcomes)
    lines = [f"{len(outcomes)} mutants: " + ", ".join(f"{counts[fate]} {fate}" for fate in Fate)]
    for outcome in outcomes:
        if outcome.fate in (Fate.SURVIVED, Fate.BROKEN):
            m, why = outcome.mutation, f": {outcome.reason}" if outcome.reason else ""
            lines.append(f"{outcome.fate}: {m.map}, {m.kind}, at {m.where} ({m.dtype}){why}")
    return "\n".join(lines)


def _data(spec: OpSpec, seed: int, outcomes: Sequence[Outcome]) -> dict:
    return {
        "schema": 1,
        "op": spec.name,
        "seed": seed,
        "mutants": [
            {
                "map": o.mutation.map,
                "kind": o.mutation.kind,
                "where": o.mutation.where,
                "dtype": o.mutation.dtype,
                "fate": str(o.fate),
                "check": o.check,
                "sample": o.sample,
                "reason": o.reason,
            }
            for o in outcomes
        ],
    }
