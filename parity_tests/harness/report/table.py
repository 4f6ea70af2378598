"""The table of a report: checks x candidates, or a line for each candidate where there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.printable import in_a_line
from parity_tests.harness.report.results import ORACLE, Results, Row

STYLE = {
    Verdict.PASS: "green",
    Verdict.PROVED: "bold green",
    Verdict.MISMATCH: "bold red",
    Verdict.SUSPECT: "bold magenta",
    Verdict.UNRESOLVED: "bold yellow",
    Verdict.UNSUPPORTED: "cyan",
    Verdict.ERROR: "bold red",
    Verdict.SKIPPED: "dim",
}
_WORST_FIRST = (
    Verdict.ERROR,
    Verdict.MISMATCH,
    Verdict.SUSPECT,
    Verdict.UNRESOLVED,
    Verdict.UNSUPPORTED,
    Verdict.PASS,
    Verdict.PROVED,
    Verdict.SKIPPED,
)
_CELL = 9  # "PASS 0.23"
_UNBOUNDED = 1000  # columns
_WIDE = 5  # columns that fit a terminal of 80 columns with every word and line; more of them only without
_MANY = 12  # columns of candidates; more of them are lines
_NARROW = {Verdict.UNSUPPORTED: "UNSUPP.", Verdict.UNRESOLVED: "UNRES."}  # told in full below the table
SHORT = {
    "float64": "f64",
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "complex128": "c128",
    "complex64": "c64",
}


class _Columns:
    """A table, in as many parts, one below the other, as it takes to show every verdict whole."""

    def __init__(self, part: Callable[[slice], Table], count: int) -> None:
        """`part`: makes a table of some of `count` columns."""
        self._part, self._count = part, count

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """Yield the parts."""
        for size in range(self._count, 0, -1):
            parts = [self._part(slice(start, start + size)) for start in range(0, self._count, size)]
            room = options.update(max_width=_UNBOUNDED)
            if size == 1 or all(Measurement.get(console, room, each).minimum <= options.max_width for each in parts):
                yield from parts
                return


def table(report: Results) -> _Columns | Table | Group:
    """Checks x candidates, for each operator. A number is the largest error over all dtypes, in units of its bound.

    A check that applies to no candidate has no line. Of more than 12 candidates each has a line, with the checks that
    it does not pass. Those that were not built are told if there is one operator, of which they are then.
    """
    of_operators: dict[str, list[Row]] = {}
    for row in report.rows:
        of_operators.setdefault(row.op, []).append(row)
    if len(of_operators) > 1:
        return Group(*(_table(op, rows, []) for op, rows in of_operators.items()))
    return _table("".join(of_operators), report.rows, report.not_built)


def _table(op: str, rows: Sequence[Row], not_built: Sequence[NotBuilt]) -> _Columns | Table:
    columns = list(dict.fromkeys((row.candidate, row.device) for row in rows))
    devices = {device for _, device in columns}
    title = Text(in_a_line(op))
    names = [candidate if len(devices) == 1 else f"{candidate} {device}" for candidate, device in columns]
    of_columns = [[r for r in rows if (r.candidate, r.device) == column] for column in columns]
    if len(columns) > _MANY:
        return _long_table(title, dict(zip(names, of_columns, strict=True)), not_built)
    ordered = sorted(rows, key=lambda row: row.candidate == ORACLE)
    applying = [row for row in ordered if row.verdict is not Verdict.SKIPPED] or ordered
    checks = [check for check in dict.fromkeys(row.check for row in ordered) if any(r.check == check for r in applying)]
    headed: list[tuple[str, Sequence[Row] | None]] = [*zip(names, of_columns, strict=True)]
    headed += [(candidate.name, None) for candidate in not_built]
    return _Columns(lambda some: _grid(title, checks, headed[some]), len(headed))


def _grid(title: Text, checks: Sequence[str], columns: Sequence[tuple[str, Sequence[Row] | None]]) -> Table:
    """The verdicts of these columns, each with a heading and its rows; None of a candidate that is not built."""
    narrow = len(columns) > _WIDE
    layout = {"box": box.SIMPLE_HEAD, "padding": (0, 0)} if narrow else {}
    grid = Table(title=title, title_justify="left", **layout)
    grid.add_column("check", no_wrap=True)
    for name, _ in columns:
        # A name of several words takes several lines, so that the table fits a terminal of 80 columns.
        name = in_a_line(name)
        lines = name if len(name) <= _CELL else name.replace("_", "_\n")
        grid.add_column(Text(lines), overflow="fold", min_width=_CELL)
    for check in checks:
        cells = (
            Text("not built", style="dim") if rows is None else _cell([r for r in rows if r.check == check], narrow)
            for _, rows in columns
        )
        grid.add_row(check, *cells)
    return grid


def _cell(rows: Sequence[Row], narrow: bool) -> Text:
    if not rows:
        return Text("")
    text = Text()
    for verdict in _WORST_FIRST:
        group = [row for row in rows if row.verdict is verdict]
        if not group:
            continue
        if text:
            text.append("\n")
        text.append(_NARROW.get(verdict, verdict.value) if narrow else verdict.value, style=STYLE[verdict])
        if len(group) < len(rows):
            text.append(" " + " ".join(SHORT[row.dtype] for row in group))
        if verdict is Verdict.PASS:
            text.append(f" {max(row.error_over_bound for row in group):.2f}", style="dim")
    return text


def _long_table(title: Text, candidates: Mapping[str, Sequence[Row]], not_built: Sequence[NotBuilt]) -> Table:
    """A line for each candidate: its worst verdict, how many rows pass, and what does not."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("candidate", "verdict", "rows that pass"):
        grid.add_column(heading, overflow="fold", no_wrap=heading == "verdict")
    grid.add_column("others", overflow="fold")
    for name, rows in candidates.items():
        verdicts = {row.verdict for row in rows}
        judged = [verdict for verdict in _WORST_FIRST if verdict in verdicts]
        passing = [row for row in rows if row.verdict in (Verdict.PASS, Verdict.PROVED)]
        error = max((row.error_over_bound for row in passing), default=0.0)
        grid.add_row(
            Text(in_a_line(name)),
            Text(judged[0].value, style=STYLE[judged[0]]),
            Text(f"{len(passing)} of {len(rows)}, {error:.2f}"),
            _others(rows),
        )
    for candidate in not_built:
        grid.add_row(Text(in_a_line(candidate.name)), Text("not built", style="dim"))
    return grid


def _others(rows: Sequence[Row]) -> Text:
    """The checks of each verdict that is no PASS, with the dtypes: "MISMATCH vjp (bf16 f16), jvp (bf16)"."""
    parts = []
    for verdict in _WORST_FIRST:
        of_checks: dict[str, list[str]] = {}
        for row in rows:
            if row.verdict is verdict and verdict not in (Verdict.PASS, Verdict.PROVED):
                of_checks.setdefault(row.check, []).append(SHORT[row.dtype])
        if of_checks:
            named = ", ".join(f"{check} ({' '.join(dtypes)})" for check, dtypes in of_checks.items())
            parts.append(Text(f"{_NARROW.get(verdict, verdict.value)} ", style=STYLE[verdict]) + Text(named, style=""))
    return Text("\n").join(parts)
