"""A report as one self-contained HTML file: no script, no font and no picture from elsewhere."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parity_tests.harness.checks import CHECKS
from parity_tests.harness.render import SHORT, explanations, failure_text, verdict_line
from parity_tests.harness.report import ORACLE, Report, Row
from parity_tests.harness.whole_file import write_text

_TEMPLATES = Path(__file__).parent / "templates"
_DECADES = 6  # of error over bound that the colours of a heat map and the bars tell apart, on either side of 1


def as_html(report: Report) -> str:
    """The whole report as an HTML document."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shade=shade, length=length, cell=cell, short=lambda dtype: SHORT[dtype])
    columns = list(dict.fromkeys((row.candidate, row.device) for row in report.rows))
    checks = list(dict.fromkeys(row.check for row in sorted(report.rows, key=lambda row: row.candidate == ORACLE)))
    cells: dict[tuple[str, str, str], list[Row]] = {}
    for row in report.rows:
        cells.setdefault((row.check, row.candidate, row.device), []).append(row)
    return environment.get_template("report.html").render(
        report=report,
        title=" / ".join(dict.fromkeys(row.op for row in report.rows)) or "nothing judged",
        verdict=verdict_line(report).plain,
        columns=columns,
        several_devices=len({device for _, device in columns}) > 1,
        checks={check: CHECKS[check].catches if check in CHECKS else "" for check in checks},
        cells=cells,
        failures=[(failure, failure_text(failure).plain) for failure in report.failures],
        explanations=[text.plain for text in explanations(report)],
    )


def to_html(report: Report, path: str | os.PathLike[str]) -> None:
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
    """The size of a heat map's cell, in rem: small enough for the map to fit a telephone."""
    return min(0.8, 18 / max(len(heat), len(heat[0])))


def length(ratio: float) -> float:
    """How long the bar of an error is, in percent, on a scale of decades; the bound is at 50."""
    if ratio == 0:
        return 0.0
    decades = _DECADES if math.isinf(ratio) else max(-_DECADES, min(_DECADES, math.log10(ratio)))
    return 50 + 50 * decades / _DECADES
