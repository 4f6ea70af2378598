"""`gradparity mutate`: the kill matrix of a spec, with progress, as a table and as data."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from parity_tests.cli.interruption import INTERRUPTED, TEXT, Interruption
from parity_tests.cli.report_files import ReportFile
from parity_tests.cli.terminal import Output, complain
from parity_tests.harness.checks import Check
from parity_tests.harness.mutation.kill_matrix import Fate, KillMatrix, Outcome
from parity_tests.harness.specs.spec import OpSpec

_STYLE = {Fate.KILLED: "green", Fate.SURVIVED: "bold red", Fate.EQUIVALENT: "dim", Fate.BROKEN: "bold yellow"}
_OTHERS = (Fate.EQUIVALENT, Fate.SURVIVED, Fate.BROKEN)


def judge_mutants(
    spec: OpSpec, checks: Sequence[Check], seed: int, file: ReportFile | None, interruption: Interruption
) -> int:
    """Judge every mutant, print the table, write the data.

    Off a terminal each mutant has a line as soon as it is judged; the data is up to date at every moment.

    Returns:
        The exit code: 0 none survives, 1 some do, 2 something could not run or be written, 130 interrupted.

    Raises:
        OracleError, NoRule, NotFloat64: the spec cannot judge.
        ValueError: nothing to mutate.
    """
    data = _Data(spec, seed, file)
    console, interrupted = Output(stderr=file is not None and file.path is None), False
    interruption.last_words = data.write
    try:
        data.write()
        matrix = KillMatrix(spec, checks, seed)
        with _shown(console, spec, len(matrix.mutations)) as show:
            for outcome in matrix.outcomes():
                data.outcomes.append(outcome)
                show(outcome)
                data.write()
                interruption.check()
    except KeyboardInterrupt:
        interrupted = True
    except Exception as problem:
        data.error = str(problem)
        data.write()
        raise
    data.error = TEXT if interrupted else None
    console.show(_table(spec, data.outcomes))
    console.show(_summary(data.outcomes), soft_wrap=True, highlight=False, markup=False)
    written = data.write()
    if interrupted:
        complain(f"{TEXT}, after {len(data.outcomes)} mutants")
        return INTERRUPTED
    fates = {outcome.fate for outcome in data.outcomes}
    return 2 if Fate.BROKEN in fates or not written else int(Fate.SURVIVED in fates)


@dataclass
class _Data:
    """The outcomes so far, and the file that is kept up to date with them, if there is one.

    `error`: why they are not all; None if they are.
    """

    spec: OpSpec
    seed: int
    file: ReportFile | None
    outcomes: list[Outcome] = field(default_factory=list)
    error: str | None = "not finished"

    def write(self) -> bool:
        """Write the file; returns whether that was possible, and says so in the end if it was not."""
        file = self.file
        if file is None or (self.error is not None and not file.kept):
            return True
        try:
            file.write(
                json.dumps({**_as_dict(self.spec, self.seed, self.outcomes), "error": self.error}, indent=2) + "\n"
            )
        except OSError as problem:
            if self.error is None:
                complain(f"{file.option} {file.given} cannot be written: {problem.strerror or problem}")
            return False
        return True


@contextlib.contextmanager
def _shown(console: Output, spec: OpSpec, length: int) -> Iterator[Callable[[Outcome], None]]:
    """A bar on a terminal; elsewhere a line for each mutant."""
    if not console.is_terminal:
        yield lambda outcome: console.show(_line(outcome), soft_wrap=True, highlight=False, markup=False)
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, transient=True, console=console) as progress:
        task = progress.add_task(spec.name, total=length)

        def move_on(outcome: Outcome) -> None:
            mutation = outcome.mutation
            progress.update(task, advance=1, description=f"{spec.name} {mutation.map}: {mutation.kind}")

        yield move_on


def _line(outcome: Outcome) -> str:
    m, why = outcome.mutation, f": {outcome.reason}" if outcome.reason else ""
    by = f" by {outcome.check}" if outcome.check else ""
    return f"{outcome.fate}{by}: {m.map}, {m.kind}, at {m.where} ({m.dtype}){why}"


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
            lines.append(_line(outcome))
    return "\n".join(lines)


def _as_dict(spec: OpSpec, seed: int, outcomes: Sequence[Outcome]) -> dict:
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
