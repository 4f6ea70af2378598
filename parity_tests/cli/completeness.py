"""Whether a report has each row that was to be judged, once, and no PASS that its numbers contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from parity_tests.harness.report.results import ORACLE, Row, contradiction

Planned = Mapping[str, Sequence[tuple[str, str, str]]]  # of each device: candidate, check and dtype


def incomplete(rows: Iterable[Row], planned: Iterable[tuple[str, Planned]]) -> str | None:
    """Return what is wrong with the rows of a run that went to its end; None if nothing is.

    Args:
        rows: of the report.
        planned: the name of each operator, and its rows on each device.
    """
    found = list(rows)
    wanted = Counter((op, *key, device) for op, devices in planned for device, keys in devices.items() for key in keys)
    known = Counter((r.op, r.candidate, r.check, r.dtype, r.device) for r in found if r.candidate != ORACLE)
    for word, rest in (("missing", wanted - known), ("there, and was not asked for", known - wanted)):
        if rest:
            return f"the report is not complete: the row {', '.join(next(iter(rest)))} is {word}"
    row = next((row for row in found if contradiction(row) is not None), None)
    if row is None:
        return None
    where = f"{row.op}, {row.candidate}, {row.check}, {row.dtype}"
    if 0 <= row.error_over_bound <= 1:
        return f"the row {where} passes with {row.comparisons} comparisons"
    return f"the row {where} passes with {row.error_over_bound:g} times the error that its bound allows"
