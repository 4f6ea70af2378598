"""The rows that cannot be judged at one kind of a problem's inputs, and pass at another."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE, Row


def judged_elsewhere(report: Report, problems: Mapping[str, Hashable]) -> None:
    """Make a row that is UNRESOLVED a skipped one, with its reason, if the same check passes at another kind of inputs.

    As where a result is 0 but for rounding at the inputs that a problem gives.

    Args:
        report: its rows are changed.
        problems: of operators by their names; those of one problem are the same code at different inputs.
    """
    passed = {_key(row, problems): row.op for row in report.rows if row.verdict in AGREE and row.op in problems}
    for i, row in enumerate(report.rows):
        other = passed.get(_key(row, problems)) if row.op in problems and row.candidate != ORACLE else None
        if row.verdict is Verdict.UNRESOLVED and other is not None:
            reason = f"cannot be judged at these inputs ({row.reason}), and is judged in {other!r}"
            report.rows[i] = replace(row, verdict=Verdict.SKIPPED, reason=reason, failure=None)


def _key(row: Row, problems: Mapping[str, Hashable]) -> tuple[Hashable, ...]:
    return problems.get(row.op), row.candidate, row.check, row.dtype, row.device
