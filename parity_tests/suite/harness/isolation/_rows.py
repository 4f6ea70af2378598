"""What a process was about when it came to its end."""

from __future__ import annotations

from parity_tests import Verdict
from parity_tests.harness.isolation import crash
from parity_tests.harness.report.results import Row


def place(name: str = "zero_n", generic: bool = False, shrinking: bool = False) -> crash.Place:
    """A sample."""
    return crash.Place(name, f"{name} (n=0)", "why", {"n": 0}, 0, generic, shrinking)


def blank_row(check: str = "vjp", dtype: str = "float64") -> Row:
    """A row of the candidate `mine`, without a verdict of its own."""
    return Row("op", "mine", check, dtype, "cpu", Verdict.PASS, 0.0, 0)
