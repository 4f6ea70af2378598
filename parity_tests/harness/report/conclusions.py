"""The conclusion on each candidate of a report, as one record for programs: verdict, reason, smallest case, remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.extent import by_candidate, extent
from parity_tests.harness.report.first_order import right_to_first_order
from parity_tests.harness.report.judged import unjudged, why_unjudged
from parity_tests.harness.report.lines_of_results import in_words
from parity_tests.harness.report.results import Results, Row, Smallest, WrongResult

# The verdicts that do not pass, the one that says most first.
_ORDER = (Verdict.MISMATCH, Verdict.SUSPECT, Verdict.UNSUPPORTED, Verdict.ERROR, Verdict.UNRESOLVED)
_FIRST = "shortcuts"  # the check that says why others fail


@dataclass(frozen=True)
class Score:
    """How many of a candidate's rows pass, of those that apply to it.

    A refusal counts as a row that does not pass, whether it is listed or not, and so does what could not be run: a
    candidate gains nothing by either.
    """

    passed: int
    judged: int


@dataclass(frozen=True)
class Conclusion:
    """The verdict on one candidate of an operator on one device, with all that a program needs to go on.

    `verdict`: PASS; or that of the row that says most, which has `check`, `dtype` and `reason`. If that row has a
    diagnosis, its `sizes`; `wrong`, each result that is wrong, with the entry that is off most and what it looks like;
    `agrees`, those that are right; `smallest`, the smallest input that fails; `to_do`, what to try; `replay`, the
    command that judges it again; `script`, one in PyTorch that shows it. `score`: how many rows pass.
    `right_to_first_order`: whether values and first derivatives are right, whatever is wrong beyond. `largest`, `cut`,
    `given_size`, `unseen`: how far the run has looked, see `extent`.
    """

    op: str
    candidate: str
    device: str
    verdict: Verdict
    check: str | None = None
    dtype: str | None = None
    reason: str | None = None
    sizes: Mapping[str, int] | None = None
    wrong: tuple[WrongResult, ...] = ()
    agrees: tuple[str, ...] = ()
    smallest: Smallest | None = None
    to_do: str | None = None
    replay: str | None = None
    script: str | None = None
    score: Score = Score(0, 0)
    largest: Mapping[str, Any] | None = None
    cut: Mapping[str, int] | None = None
    given_size: bool | None = None
    right_to_first_order: bool = False
    unseen: Sequence[str] = field(default_factory=list)


def conclusions(report: Results) -> list[Conclusion]:
    """Return the conclusion on each candidate of each operator on each device, in the order of the rows.

    Those that are not built come last: "ERROR" with the reason, or "SKIPPED" if that was expected.
    """
    failed = {id(row) for row in report.failed}
    without, right = unjudged(report.rows), right_to_first_order(report)
    found = list[Conclusion]()
    for key, rows in by_candidate(report).items():
        said = _said(key, [row for row in rows if id(row) in failed], without.get(key[:2], ()))
        said.setdefault("verdict", Verdict.PASS if any(row.verdict in AGREE for row in rows) else Verdict.SKIPPED)
        further = {"score": _score(rows), "right_to_first_order": key in right}
        found.append(Conclusion(*key, **said, **further, **extent(report, rows)))
    for candidate in report.not_built:
        verdict = Verdict.SKIPPED if candidate.expected else Verdict.ERROR
        found.append(Conclusion(candidate.op, candidate.name, "", verdict, reason=candidate.reason))
    return found


def _score(rows: Sequence[Row]) -> Score:
    judged = [row for row in rows if row.verdict is not Verdict.SKIPPED]
    return Score(sum(row.verdict in AGREE for row in judged), len(judged))


def _said(key: tuple[str, str, str], failed: Sequence[Row], without: Sequence[Row]) -> dict[str, Any]:
    """The facts of the row that decides; nothing if none fails."""
    if not failed and without:
        row, reason = without[0], why_unjudged(key[1], without)
        return {"verdict": Verdict.UNSUPPORTED, "check": row.check, "dtype": row.dtype, "reason": reason}
    if not failed:
        return {}
    row = min(
        failed, key=lambda row: (_ORDER.index(row.verdict), row.check != _FIRST or row.verdict is not Verdict.MISMATCH)
    )
    said: dict[str, Any] = {"verdict": row.verdict, "check": row.check, "dtype": row.dtype, "reason": row.reason}
    failure = row.failure
    if failure is not None:
        said |= {"reason": "; ".join(dict.fromkeys(map(in_words, failure.wrong))), "sizes": dict(failure.sizes)}
        said["wrong"] = tuple(dataclasses.replace(wrong, heat=None, histogram=None) for wrong in failure.wrong)
        said |= {"agrees": failure.agrees, "smallest": failure.smallest, "replay": failure.replay}
        said |= {"script": failure.script, "to_do": failure.suspect or failure.to_do or None}
    return said
