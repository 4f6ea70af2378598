"""No right version is accused at special points at any seed; that mistakes are caught there says `test_collection`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.report.report import Report
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import special_points
from parity_tests.operators.catalogue import operators_of
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating
from parity_tests.suite.test_collection import ALARMS

CASES = operators_of(special_points)
FIRST_SEEDS, MORE_SEEDS = range(1), range(1, 5)
CHECKS = ("vjp", "points", "points_second_order", "exact")


def reports(case: Operator, call: Callable, checks: Sequence[str], dtypes: Sequence[str], seeds: Sequence[int]):
    """A report for every seed; none is shrunk, and all are judged in one court."""
    first = Oracles(case.spec, "cpu", seeds[0])
    for seed in seeds:
        oracles = first if seed == seeds[0] else first.at_seed(seed)
        chosen, precisions = select_checks(list(checks)), select_precisions(list(dtypes))
        candidates = [Candidate(call, "judged")]
        plan = Plan(
            case.spec, candidates, chosen, precisions, "cpu", seed, lambda row: "", deadline=0.0, oracles=oracles
        )
        report = Report({})
        for _ in report.collect(judge(plan)):
            pass
        yield seed, report


def is_caught_at(case: Operator, mistake: Mistake, seeds: Sequence[int]) -> None:
    for seed, report in reports(case, mistake.call, [mistake.caught_by], [mistake.dtype], seeds):
        (row,) = (row for row in report.rows if row.candidate == "judged")
        assert row.verdict is Verdict.MISMATCH, f"seed {seed}\n{report}"


def is_not_accused_at(case: Operator, dtypes: Sequence[str], seeds: Sequence[int]) -> None:
    for seed, report in reports(case, case.right, CHECKS, dtypes, seeds):
        assert not [row for row in report.rows if row.verdict in ALARMS], f"seed {seed}\n{report}"
        assert any(row.check == "points" and row.passed for row in report.rows), f"seed {seed}\n{report}"


LONG = ("largest_of_twelve", "router")


@rotating(4)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=op, marks=pytest.mark.soak if op in LONG else pytest.mark.slow)
        for op, case in CASES.items()
    ],
)
def test_a_right_version_is_accused_in_no_format(case: Operator):
    is_not_accused_at(case, list(PRECISIONS), FIRST_SEEDS)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_right_version_is_accused_at_no_seed_in_no_format(case: Operator):
    is_not_accused_at(case, list(PRECISIONS), MORE_SEEDS)


@pytest.mark.slow
def test_ties_of_twelve_are_no_mistake():
    """A random direction makes one of them the largest with probability 1/12: 32 directions are too few."""
    case = CASES["largest_of_twelve"]
    for seed, report in reports(case, case.right, ["points"], ["float64"], [0]):
        (row,) = (row for row in report.rows if row.candidate == "judged")
        assert row.passed, f"seed {seed}\n{report}"
        assert row.conventions


@fast("float16")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_quotient_rule_may_not_square_what_has_no_square(dtype: str):
    case = CASES["quotient"]
    is_not_accused_at(case, [dtype], [0])
    is_caught_at(case, case.mistakes[f"squared_in_{dtype}"], [0])


@pytest.mark.slow
def test_of_quotients_of_quotients_nothing_is_said_there():
    """The cotangent of 1 / x + 1 / y is larger than any number of the format, and those of x and y are about 1."""
    spec = OpSpec(
        "harmonic", lambda x, y: 1 / (1 / x + 1 / y), "(n),(n)->(n)", domains={"x": "positive", "y": "positive"}
    )
    is_not_accused_at(Operator(spec, lambda x, y: 1 / (1 / x + 1 / y), {}), ["float32", "float16"], [0])
