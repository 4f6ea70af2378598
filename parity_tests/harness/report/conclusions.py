"""The conclusion on each candidate of a report, as one record for programs: verdict, reason, smallest case."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.extent import by_candidate, extent
from parity_tests.harness.report.first_order import right_to_first_order
from parity_tests.harness.report.judged import unjudged, why_unjudged
from parity_tests.harness.report.results import Results, Row, WrongResult

# The verdicts that do not pass, the one that says most first.
_ORDER = (Verdict.MISMATCH, Verdict.SUSPECT, Verdict.UNSUPPORTED, Verdict.ERROR, Verdict.UNRESOLVED)
_FIRST = "shortcuts"  # the check that says why others fail


def conclusions(report: Results) -> list[dict[str, Any]]:
    """A record for each candidate of each operator on each device, in the order of the rows; then what is not built.

    Each has "op", "candidate", "device", "verdict", and of the row that decides "check", "dtype", "reason", "sizes" and
    "smallest" (see `results.Smallest`), and "replay", the command that judges it again; None where there is none. Each
    has "right_to_first_order", whatever is wrong beyond, and how far the run has looked: see `extent`. A candidate that
    passes has "PASS" and these, one that is not built "ERROR" with the reason, or "SKIPPED".
    """
    failed = {id(row) for row in report.failed}
    without, right = unjudged(report.rows), right_to_first_order(report)
    found = [
        _conclusion(key, rows, [row for row in rows if id(row) in failed], without.get(key[:2], ()))
        | {"right_to_first_order": key in right}
        | extent(report, rows)
        for key, rows in by_candidate(report).items()
    ]
    for candidate in report.not_built:
        verdict = Verdict.SKIPPED if candidate.expected else Verdict.ERROR
        found.append(_record((candidate.op, candidate.name, ""), verdict, reason=candidate.reason))
    return found


def _conclusion(
    key: tuple[str, str, str], rows: Sequence[Row], failed: Sequence[Row], without: Sequence[Row]
) -> dict[str, Any]:
    if not failed and without:
        facts = {"check": without[0].check, "dtype": without[0].dtype, "reason": why_unjudged(key[1], without)}
        return _record(key, Verdict.UNSUPPORTED, **facts)
    if not failed:
        agrees = any(row.verdict in AGREE for row in rows)
        return _record(key, Verdict.PASS if agrees else Verdict.SKIPPED)
    facts: dict[str, Any]
    row = min(
        failed, key=lambda row: (_ORDER.index(row.verdict), row.check != _FIRST or row.verdict is not Verdict.MISMATCH)
    )
    facts = {"check": row.check, "dtype": row.dtype, "reason": row.reason}
    failure = row.failure
    if failure is not None:
        reasons = dict.fromkeys(map(_in_words, failure.wrong))
        smallest = None if failure.smallest is None else dataclasses.asdict(failure.smallest)
        facts |= {"reason": "; ".join(reasons), "sizes": dict(failure.sizes)}
        facts |= {"smallest": smallest, "replay": failure.replay}
    return _record(key, row.verdict, **facts)


def _in_words(wrong: WrongResult) -> str:
    where = f" ({wrong.circumstance})" if wrong.circumstance else ""
    return f"{wrong.label} {wrong.pattern}{where}"


def _record(key: tuple[str, str, str], verdict: Verdict, **facts: Any) -> dict[str, Any]:
    names = dict(zip(("op", "candidate", "device"), key, strict=True))
    blank: dict[str, Any] = dict.fromkeys(
        ("check", "dtype", "reason", "sizes", "smallest", "replay", "largest", "cut", "given_size")
    )
    blank |= {"right_to_first_order": False, "unseen": []}
    return names | {"verdict": str(verdict)} | blank | facts
