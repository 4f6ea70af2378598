"""Two reports of one thing, before and after a change: what is new, what is mended, and both as one report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Row

Key = tuple[str, str, str, str, str]
_NOT_JUDGED = (Verdict.SKIPPED, Verdict.UNSUPPORTED)


@dataclass(frozen=True)
class Comparison:
    """How the rows of a report differ from those of an earlier one.

    Attributes:
        new: rows that do not pass, and passed before or were not judged.
        mended: rows that pass, and did not before.
        still: rows that do not pass, as before.
        gone: rows that did not pass before, and are not judged any more.
        lost: rows that passed or failed before, and are skipped or refused now.
    """

    new: tuple[Row, ...]
    mended: tuple[Row, ...]
    still: tuple[Row, ...]
    gone: tuple[Row, ...]
    lost: tuple[Row, ...]


def compare(before: Report, after: Report) -> Comparison:
    """Return how the rows of `after` differ from those of `before`, by operator, candidate, check, dtype and device."""
    verdicts = {_key(row): row.verdict for row in before.rows}
    failed_before, failed_after = {_key(row): row for row in before.failed}, {*map(_key, after.failed)}
    judged_after = {_key(row): row for row in (*after.rows, *after.failed)}  # of rows of one key one that fails

    def changed(key: Key, row: Row) -> str:
        if key in failed_after and key not in failed_before:
            return "new"
        if row.verdict in _NOT_JUDGED and verdicts.get(key, Verdict.SKIPPED) not in _NOT_JUDGED:
            return "lost"
        if key in failed_after:
            return "still"
        return "mended" if key in failed_before and row.verdict in AGREE else ""

    of: dict[str, list[Row]] = {"new": [], "mended": [], "still": [], "lost": [], "": []}
    for key, row in judged_after.items():
        of[changed(key, row)].append(row)
    gone = tuple(row for key, row in failed_before.items() if key not in judged_after)
    return Comparison(tuple(of["new"]), tuple(of["mended"]), tuple(of["still"]), gone, tuple(of["lost"]))


def merged(reports: Sequence[Report]) -> Report:
    """Return one report of several, in which a row that several have is that of the last.

    A run that ended early makes the merged report fail, as it made its own. Of rows that one report has more than once
    all stay.
    """
    rows: dict[Key, list[Row]] = {}
    for report in reports:
        own: dict[Key, list[Row]] = {}
        for row in report.rows:
            own.setdefault(_key(row), []).append(row)
        rows |= own
    return replace(Report.merged(reports), rows=[row for same in rows.values() for row in same])


def as_lines(comparison: Comparison) -> Iterator[Text]:
    """Yield a line for each row that differs or still fails, and one with the numbers."""
    groups = (
        ("new", comparison.new, "bold red"),
        ("fixed", comparison.mended, "green"),
        ("no longer judged", comparison.gone + comparison.lost, "yellow"),
        ("as before", comparison.still, "dim"),
    )
    for name, rows, style in groups:
        for row in rows:
            line = Text(f"{name}: ", style=style)
            line.append(f"{row.op}, {row.candidate}, {row.check}, {row.dtype}, {row.device}: {row.verdict}", style="")
            yield line
    numbers = ", ".join(f"{len(rows)} {name}" for name, rows, _ in groups)
    yield Text(numbers, style="bold red" if comparison.new or comparison.lost else "bold green")


def _key(row: Row) -> Key:
    return row.op, row.candidate, row.check, row.dtype, row.device
