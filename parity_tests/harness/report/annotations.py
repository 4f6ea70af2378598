"""Failures, as the workflow commands by which GitHub Actions annotates a pull request."""

from __future__ import annotations

from dataclasses import replace

from parity_tests.harness.candidates.definition import Definition
from parity_tests.harness.report.judged import unjudged, why_unjudged
from parity_tests.harness.report.lines_of_failures import failure_text
from parity_tests.harness.report.printable import printable
from parity_tests.harness.report.results import Results
from parity_tests.harness.report.text import grouped_failures, summary


def as_annotations(report: Results) -> list[str]:
    """Return a line for each failure that is told in full, for those that follow, for broken candidates, for an error.

    Each is shown where the report says that its candidate is defined; those of others have no place.
    """
    places = {(each.op, each.candidate): each for each in report.definitions}
    causes, consequences = grouped_failures(report.failures)
    lines = []
    for first, *_ in causes:
        title = f"{first.candidate}: {first.check}"
        lines.append(_line(places.get((first.op, first.candidate)), title, failure_text(first).plain))
    for (op, candidate, _), text in summary(consequences).items():
        lines.append(_line(places.get((op, candidate)), "gradparity", text))
    for (op, candidate), refused in unjudged(report.rows).items():
        lines.append(_line(places.get((op, candidate)), "gradparity", why_unjudged(candidate, refused)))
    for broken in report.not_built:
        if not broken.expected:
            text = f"{broken.name}, not built: {broken.reason}"
            lines.append(_line(places.get((broken.op, broken.name)), "gradparity", text))
    if report.error:
        files = {each.file: replace(each, line=None) for each in report.definitions}
        lines.append(_line(next(iter(files.values())) if len(files) == 1 else None, "gradparity", report.error))
    return lines


def _line(place: Definition | None, title: str, message: str) -> str:
    file = f"file={_property(place.file)}," if place is not None else ""
    line = f"line={place.line}," if place is not None and place.line is not None else ""
    return f"::error {file}{line}title={_property(title)}::{_message(message)}"


def _message(text: str) -> str:
    text = printable(text).rstrip()
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
