"""The collection: every planted mistake is caught by the check that is named, and no right version raises an alarm."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import zlib
from collections.abc import Callable, Sequence

import pytest

from parity_tests import operators
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.report.report import Report
from parity_tests.operators import norms
from parity_tests.operators.catalogue import COLLECTION, MEASURED, SUBTLE, operators_of
from parity_tests.operators.operator import Operator
from parity_tests.suite.mistakes import assert_caught
from parity_tests.suite.mistakes import judged as judged_version
from parity_tests.suite.rotation import rotating

ALARMS = (Verdict.MISMATCH, Verdict.SUSPECT, Verdict.ERROR)
SEEDS = range(2)  # `python -m benchmarks.seeds` judges five
# Judged with the fast tests, too: its mistakes, and its right version under every check.
REPRESENTATIVE = "softplus"
# Right versions that take long under every check: of these the slow tests judge the numbers in one format.
LONG = ("attention_grouped", "attention_head", "attention_lse", "attention_unbatched", "expm", "quantile")


def share_of(op: str) -> int:
    """A number that shares the operators out between tests: the same in every run, and as good as random."""
    return zlib.crc32(op.encode())


def under_every_check(op: str) -> bool:
    """True if the fast or the slow tests judge a right version under every check; otherwise its numbers, in one format.

    What a check asks of how a candidate is called is the same for every operator, so that a third of them will do, and
    `suite/harness/checks` has right operators for each check. The soak tests judge all under every check.
    """
    return op == REPRESENTATIVE or (op not in LONG and share_of(op) % 3 == 0)


def mark_of(op: str) -> Sequence[pytest.MarkDecorator]:
    """When a right version is judged under every check."""
    if op == REPRESENTATIVE:
        return ()
    return (pytest.mark.slow if under_every_check(op) else pytest.mark.soak,)


CASES = [pytest.param(case, id=op, marks=mark_of(op)) for op, case in COLLECTION.items()]
MISTAKES = [
    pytest.param(case, mistake, id=f"{op}-{name}", marks=() if op == REPRESENTATIVE else pytest.mark.slow)
    for op, case in COLLECTION.items()
    for name, mistake in case.mistakes.items()
]
EVERY_MISTAKE = [
    pytest.param(case, mistake, id=f"{op}-{name}")
    for op, case in COLLECTION.items()
    for name, mistake in case.mistakes.items()
]
each_op = pytest.mark.parametrize("case", CASES)
EVERY_CASE = [pytest.param(case, id=op) for op, case in COLLECTION.items()]
IN_ONE_FORMAT = [
    pytest.param(case, id=op, marks=pytest.mark.soak if under_every_check(op) else pytest.mark.slow)
    for op, case in COLLECTION.items()
]
FORMATS = ("float64", "float32", "bfloat16", "float16")
# What compares numbers, and not how a candidate is called.
NUMERICAL = ["forward", "vjp", "jvp", "adjoint", "linearity", "points", "exact", "vjp_of_vjp", "jvp_of_vjp"]
NUMERICAL += ["vjp_of_jvp", "jvp_of_jvp", "points_second_order"]


@functools.lru_cache(maxsize=1)  # the tests of a case follow one another: see `pytest_collection_modifyitems`
def courts(case: Operator) -> dict[int, Oracles]:
    """A court for each seed; the oracle is traced, and certified at seed 0, once for all of them."""
    first = Oracles(case.spec, "cpu", SEEDS[0])
    return {SEEDS[0]: first} | {seed: first.at_seed(seed) for seed in SEEDS[1:]}


def judged(case: Operator, call: Callable, checks: list[str] | None, dtypes: list[str], seed: int, name: str) -> Report:
    """The report on one version, by oracles that may have judged others."""
    oracles = courts(case)[seed]
    return judged_version(call, case.spec, checks, dtypes, seed=seed, oracles=oracles, name=name)


@pytest.mark.slow
@rotating(3, by="case")
@pytest.mark.parametrize(("case", "mistake"), MISTAKES)
def test_a_mistake_is_caught(case, mistake):
    assert_caught(mistake, case.spec, courts(case)[0])


@pytest.mark.soak
@pytest.mark.parametrize(("case", "mistake"), EVERY_MISTAKE)
def test_a_mistake_is_not_caught_by_luck(case, mistake):
    """At seed 0 it is judged above."""
    report = judged(case, mistake.call, [mistake.caught_by], [mistake.dtype], SEEDS[1], "wrong")
    (row,) = (row for row in report.rows if row.candidate == "wrong")
    assert row.verdict is Verdict.MISMATCH, str(report)


def no_alarm(case: Operator, dtypes: list[str], seed: int, alarms: tuple[Verdict, ...]) -> Report:
    """Judge a right version under every check; a check that PyTorch itself has no rule for may say so."""
    report = judged(case, case.right, None, dtypes, seed, "right")
    assert not [row for row in report.rows if row.verdict in alarms], str(report)
    applicable = [row for row in report.rows if row.verdict not in (Verdict.UNSUPPORTED, Verdict.SKIPPED)]
    assert len(applicable) > 20, str(report)
    assert sum(row.verdict is Verdict.PASS for row in applicable) > len(applicable) / 2, str(report)
    return report


@pytest.mark.slow
@rotating(5, by="case")
@each_op
def test_a_right_version_raises_no_alarm(case):
    no_alarm(case, ["float64"], seed=0, alarms=(*ALARMS, Verdict.UNRESOLVED))


@rotating(10, by="case")
@pytest.mark.parametrize("case", IN_ONE_FORMAT)
def test_a_right_version_raises_no_alarm_in_one_format(case):
    """Its numbers, at another seed, in a format that PyTorch has it in; the operators are shared out by name.

    By chance all that a 16-bit row compares may be too small to tell, which is no alarm.
    """
    start = share_of(case.spec.name) % len(FORMATS)
    for dtype in (*FORMATS[start:], *FORMATS[:start]):
        report = judged(case, case.right, NUMERICAL, [dtype], 1, "right")
        assert not [row for row in report.rows if row.verdict in ALARMS], str(report)
        if any(row.verdict is Verdict.PASS for row in report.rows if row.candidate == "right"):
            return
    pytest.fail(f"{case.spec.name} passes in none of {', '.join(FORMATS)}")


@pytest.mark.soak
@pytest.mark.parametrize("case", EVERY_CASE)
def test_a_right_version_raises_no_alarm_in_any_format(case):
    no_alarm(case, list(PRECISIONS), seed=1, alarms=ALARMS)


def test_the_collection_is_large_and_has_every_kind():
    mistakes = [mistake for case in COLLECTION.values() for mistake in case.mistakes.values()]
    assert len({case.spec.name for case in COLLECTION.values()}) >= 15
    assert len(mistakes) >= 40
    assert {REPRESENTATIVE, *LONG} <= set(COLLECTION)
    share = sum(map(under_every_check, COLLECTION)) / len(COLLECTION)
    assert 0.2 < share < 0.5


def test_every_operator_that_stands_in_a_file_is_in_the_catalogue():
    files = [
        importlib.import_module(f"{operators.__name__}.{file.name}")
        for file in pkgutil.iter_modules(operators.__path__)
    ]
    there = operators_of(*files).values()
    assert len(there) > 100
    assert {*there} == {*COLLECTION.values(), *MEASURED.values(), *SUBTLE.values()}


def test_two_operators_of_one_name_are_refused():
    with pytest.raises(ValueError, match="the same name"):
        operators_of(norms, norms)


def test_an_operator_without_formulas_says_so():
    with pytest.raises(LookupError, match="huber has no formulas"):
        _ = COLLECTION["huber"].written
