"""Which candidates are right to first order: values and first derivatives, which is what most people ask for."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.extent import by_candidate
from parity_tests.harness.report.results import ORACLE, Results, Row

# Every check that a derivative of the second order or higher takes part in, and nothing else. That of another check may
# be wrong there alone, too: see `Failure.beyond_first_order`.
HIGHER_ORDER = frozenset({"vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "points_second_order", "third_order"})
_NEEDED = ("forward", "vjp")

Key = tuple[str, str, str]


def right_to_first_order(report: Results) -> dict[Key, list[Row]]:
    """Return for each operator, candidate and device that is right to first order the rows that show it.

    Values and the VJP must have been compared, and whatever does not pass must be of a higher order. Of a run that has
    ended early nothing is said.
    """
    found: dict[Key, list[Row]] = {}
    for key, rows in by_candidate(report).items() if report.error is None else ():
        agree = [row for row in rows if row.verdict is Verdict.PASS and row.check not in HIGHER_ORDER]
        lacking = set(_NEEDED) - {row.check for row in agree}
        if not lacking and all(row.passed or _is_beyond(row) for row in rows):
            found[key] = agree
    return found


def _is_beyond(row: Row) -> bool:
    return row.check in HIGHER_ORDER or (row.failure is not None and row.failure.beyond_first_order)


def only_higher_order_fails(report: Results) -> bool:
    """True if something fails, and every candidate is right to first order."""
    failed = report.failed
    right = set(right_to_first_order(report)) == set(by_candidate(report))
    return bool(failed) and right and all(row.candidate != ORACLE for row in failed)


def lines(report: Results) -> Iterator[Text]:
    """A line for each candidate that is right to first order, and does not pass."""
    fail = {(row.op, row.candidate, row.device) for row in report.failed}
    for key, rows in right_to_first_order(report).items():
        if key in fail:
            op, candidate, _ = key
            others = len({row.check for row in rows} - set(_NEEDED))
            agree = ", ".join(_NEEDED) + f" and {others} other checks" if others else " and ".join(_NEEDED)
            yield Text(f"{op}: {candidate} is right to first order: {agree} agree", style="bold green")
