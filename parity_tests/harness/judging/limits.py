"""Limits: checks that a candidate is known to fail, and must fail."""

from __future__ import annotations

from dataclasses import replace

from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.results import Row


def held_to_limit(row: Row, reason: str | None) -> Row:
    """A check that is listed as a limit, for this reason, must fail; what fails must not be excused otherwise."""
    if reason is None:
        return row
    if row.verdict in AGREE:
        return replace(row, verdict=Verdict.MISMATCH, reason=f"listed as a limit ({reason}), but it passes: unlist it")
    if row.verdict in (Verdict.UNRESOLVED, Verdict.SKIPPED):
        return row
    found = "" if row.verdict is Verdict.UNSUPPORTED else f" (found: {row.verdict})"
    return replace(
        row, verdict=Verdict.UNSUPPORTED, listed=True, declared=False, limit_of="", reason=reason + found, failure=None
    )
