"""Failures, as the workflow commands by which GitHub Actions annotates a pull request."""

from __future__ import annotations

from collections.abc import Mapping

from parity_tests.harness.report.judged import unjudged, why_unjudged
from parity_tests.harness.report.lines_of_failures import failure_text
from parity_tests.harness.report.printable import printable
from parity_tests.harness.report.results import Results
from parity_tests.harness.report.text import grouped_failures, summary


def as_annotations(report: Results, files: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each failure that is told in full, for those that follow, for broken candidates, for an error.

    Args:
        report: what a run has found.
        files: the case file of each operator, at which its annotations are shown; those of others have no place.
    """
    files = files or {}
    causes, consequences = grouped_failures(report.failures)
    lines = [
        _line(files.get(group[0].op), f"{group[0].candidate}: {group[0].check}", failure_text(group[0]).plain)
        for group in causes
    ]
    lines += [_line(files.get(op), "gradparity", line) for (op, _, _), line in summary(consequences).items()]
    for (op, candidate), refused in unjudged(report.rows).items():
        lines.append(_line(files.get(op), "gradparity", why_unjudged(candidate, refused)))
    for broken in report.not_built:
        if not broken.expected:
            text = f"{broken.name}, not built: {broken.reason}"
            lines.append(_line(files.get(broken.op), "gradparity", text))
    if report.error:
        lines.append(_line(next(iter(files.values())) if len(files) == 1 else None, "gradparity", report.error))
    return lines


def _line(file: str | None, title: str, message: str) -> str:
    place = f"file={_property(file)}," if file is not None else ""
    return f"::error {place}title={_property(title)}::{_message(message)}"


def _message(text: str) -> str:
    text = printable(text).rstrip()
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
