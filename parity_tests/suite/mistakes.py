"""How a planted mistake is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.crosscheck import as_candidate, select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.report.report import Report
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake


def judged(
    call: Callable | AnyCandidate,
    spec: OpSpec,
    checks: Sequence[str] | None,
    dtypes: Sequence[str],
    *,
    seed: int = 0,
    oracles: Oracles | None = None,
    name: str = "wrong",
) -> Report:
    """The report on one version, in this process.

    `oracles`: those of this spec at this seed on the CPU, if it has them from another version.
    """
    chosen, precisions = select_checks(checks), select_precisions(dtypes)
    plan = Plan(
        spec, [as_candidate(call, name, None)], chosen, precisions, "cpu", seed, lambda row: "", oracles=oracles
    )
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return report


def verdicts(report: Report, name: str = "wrong") -> dict[str, Verdict]:
    """By check, of a version that was judged in one dtype."""
    return {row.check: row.verdict for row in report.rows if row.candidate == name}


def assert_caught(mistake: Mistake, spec: OpSpec, oracles: Oracles | None = None) -> None:
    """The check that is named disagrees with the mistake, and those that it passes agree."""
    report = judged(mistake.call, spec, [mistake.caught_by, *mistake.passes], [mistake.dtype], oracles=oracles)
    found = verdicts(report)
    assert found.pop(mistake.caught_by) is mistake.verdict, str(report)
    assert found == dict.fromkeys(mistake.passes, Verdict.PASS), str(report)
    assert report.exit_code == (2 if mistake.verdict is Verdict.UNRESOLVED else 1)
