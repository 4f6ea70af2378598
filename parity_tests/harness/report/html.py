"""A report in HTML, as a file or as a part of another page: no script, no font and no picture from elsewhere."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report import extent, first_order
from parity_tests.harness.report.about import Block, blocks, markdown
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.lines_of_failures import failure_text
from parity_tests.harness.report.results import ORACLE, Failure, Results, Row
from parity_tests.harness.report.table import SHORT
from parity_tests.harness.report.templates import templates
from parity_tests.harness.report.text import explanations, grouped_failures, summary, verdict_line

_TEMPLATES = Path(__file__).parent
_DECADES = 6  # of error over bound that the colours of a heat map and the bars tell apart, on either side of 1


def as_html(report: Results) -> str:
    """The whole report as an HTML document."""
    return _rendered("report.html", report, "")


def as_fragment(report: Results) -> str:
    """The whole report as one element of another page, such as a notebook, on whose other elements it has no effect.

    Its styles are nested in a class of their own, and the names of its anchors are of this report alone.
    """
    digest = hashlib.sha256(_rendered("fragment.html", report, "").encode()).hexdigest()
    return _rendered("fragment.html", report, f"-{digest[:8]}")


def _rendered(template: str, report: Results, suffix: str) -> str:
    """The whole report by a template; `suffix`: the end of the first part of every anchor."""
    environment = templates(_TEMPLATES)
    environment.filters.update(shade=shade, length=length, cell=cell, short=lambda dtype: SHORT[dtype])
    ops = dict.fromkeys(row.op for row in report.rows)
    tables = {op: Table.of([row for row in report.rows if row.op == op], report.catches) for op in ops}
    causes, consequences = grouped_failures(report.failures)
    followed: dict[tuple[str, str, str], list[tuple[Failure, str]]] = {}
    for group in consequences:
        followed.setdefault((group[0].op, group[0].candidate, group[0].device), []).append(_in_words(group))
    return environment.get_template(template).render(
        report=report,
        title=" / ".join(tables) or "nothing judged",
        verdict=verdict_line(report).plain,
        right=[text.plain for text in first_order.lines(report)],
        tables=tables,
        dtypes=[dtype for dtype in SHORT if any(row.dtype == dtype for row in report.rows)],
        several_devices=len({row.device for row in report.rows}) > 1,
        anchors={_place(group[0]): f"failure{suffix}-{i}" for i, group in enumerate([*causes, *consequences], 1)},
        causes=[(*_in_words(group), tables[group[0].op].cells[_place(group[0])[1:]]) for group in causes],
        consequences=[(line, followed[key]) for key, line in summary(consequences).items()],
        abouts=_abouts(report, tables.values(), suffix),
        extents=extent.lines(report),
        explanations=[text.plain for text in explanations(report)],
    )


@dataclass(frozen=True)
class About:
    """A check in words: its anchor on the page, what it catches, and the whole text if a candidate has failed it."""

    anchor: str
    catches: str
    blocks: list[Block]


def _abouts(report: Results, tables: Iterable[Table], suffix: str) -> dict[str, About]:
    """The checks of the tables in words, in their order, as far as anything is known of them."""
    failed = {failure.check for failure in report.failures}
    found = {}
    for i, check in enumerate(dict.fromkeys(check for table in tables for check in table.checks), 1):
        text = blocks(markdown(check)) if check in failed else []
        if text or report.catches.get(check):
            found[check] = About(f"check{suffix}-{i}", report.catches.get(check, ""), text)
    return found


@dataclass(frozen=True)
class Table:
    """The rows of one operator: checks, with what they catch, x candidates on devices."""

    columns: list[tuple[str, str]]
    checks: dict[str, str]
    cells: dict[tuple[str, str, str], list[Row]]

    @classmethod
    def of(cls, rows: Sequence[Row], catches: Mapping[str, str]) -> Table:
        """The oracle's certificates come first among the columns, the checks in the order of the candidates' rows."""
        checks = dict.fromkeys(row.check for row in sorted(rows, key=lambda row: row.candidate == ORACLE))
        cells: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            cells.setdefault((row.candidate, row.device, row.check), []).append(row)
        return cls(
            columns=list(dict.fromkeys((row.candidate, row.device) for row in rows)),
            checks={check: catches.get(check, "") for check in checks},
            cells=cells,
        )

    @property
    def tried(self) -> int:
        """The number of checks that ran."""
        rows = [(check, row) for (_, _, check), of_cell in self.cells.items() for row in of_cell]
        return len({check for check, row in rows if row.verdict not in (Verdict.SKIPPED, Verdict.UNSUPPORTED)})


def _place(failure: Failure) -> tuple[str, str, str, str]:
    return failure.op, failure.candidate, failure.device, failure.check


def _in_words(group: Sequence[Failure]) -> tuple[Failure, str]:
    return group[0], failure_text(group[0], also=[SHORT[f.dtype] for f in group[1:]]).plain


def to_html(report: Results, path: str | os.PathLike[str]) -> None:
    """Write `as_html(report)` to a file, whole or not at all."""
    write_text(path, as_html(report))


def shade(ratio: float | None) -> str:
    """The colour of an error in units of its bound: white for none, blue up to the bound, red beyond it."""
    if ratio is None or math.isnan(ratio):
        return "#999"
    if ratio == 0:
        return "#fff"
    decades = _DECADES if math.isinf(ratio) else max(-_DECADES, min(_DECADES, math.log10(ratio)))
    if decades <= 0:
        return f"hsl(215 70% {95 - 30 * (1 + decades / _DECADES):.0f}%)"
    return f"hsl(0 80% {75 - 40 * decades / _DECADES:.0f}%)"


def cell(heat: Sequence[Sequence[float]]) -> float:
    """The size of a heat map's cell, in pixels: small enough for the map to fit a telephone."""
    return min(13.0, 280 / max(len(heat), len(heat[0])))


def length(ratio: float) -> float:
    """How long the bar of an error is, in percent, on a scale of decades; the bound is at 50."""
    if ratio == 0:
        return 0.0
    decades = _DECADES if math.isinf(ratio) else max(-_DECADES, min(_DECADES, math.log10(ratio)))
    return 50 + 50 * decades / _DECADES
