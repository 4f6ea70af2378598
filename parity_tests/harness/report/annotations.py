"""What does not pass, as the workflow commands by which GitHub Actions annotates a pull request."""

from __future__ import annotations

from parity_tests.harness.report.printable import printable
from parity_tests.harness.report.results import Results
from parity_tests.harness.report.text import failure_text, grouped_failures, summary


def as_annotations(report: Results, file: str | None = None) -> list[str]:
    """Return a line for each failure that is told in full, for those that follow from it, and for an error.

    Args:
        report: what a run has found.
        file: the case file, at which the annotations are shown; None if there is none.
    """
    causes, consequences = grouped_failures(report.failures)
    place = f"file={_property(file)}," if file is not None else ""
    lines = [
        f"::error {place}title={_property(f'{group[0].candidate}: {group[0].check}')}::"
        f"{_message(failure_text(group[0]).plain)}"
        for group in causes
    ]
    lines += [f"::error {place}title=gradparity::{_message(line)}" for line in summary(consequences).values()]
    if report.error:
        lines.append(f"::error {place}title=gradparity::{_message(report.error)}")
    return lines


def _message(text: str) -> str:
    text = printable(text).rstrip()
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
