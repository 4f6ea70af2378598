"""Rows and reports that the tests make by hand, and the candidate of which they are."""

from __future__ import annotations

from parity_tests import Report, Verdict
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.suite.harness._ops import unary_function

WRONG = unary_function(lambda x: x * x, lambda x, g: x * g)


def row(verdict: Verdict = Verdict.PASS, candidate: str = "mine", **fields) -> Row:
    return Row("op", candidate, "vjp", "float32", "cpu", verdict, 0.5, 3, **fields)


def report_of(*rows: Row, **fields) -> Report:
    return Report({"seed": 0}, list(rows), **fields)


LISTED = row(Verdict.UNSUPPORTED, listed=True, reason="a limit")
CERTIFICATE = row(candidate=ORACLE)
SKIPPED = row(Verdict.SKIPPED, reason="not an operator")
