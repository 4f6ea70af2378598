"""The expected discrepancies that CI holds the sweep against."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from parity_tests.sweep.changes import read_lines
from parity_tests.sweep.lines import MODES, THIRD_ORDER, Verdict
from torch_impl.derivatives import entries

FILE = Path(__file__).parent / "expected" / "torch-2.13-jax-0.10.json"


def test_the_expected_verdicts_are_of_derivatives_that_there_are():
    lines, has_all = read_lines(FILE)
    names = {entry.name for entry in entries()}
    assert not has_all
    assert len({line.key for line in lines}) == len(lines)
    assert {line.operator for line in lines} <= names
    assert set(MODES) <= {line.mode for line in lines} <= {*MODES, THIRD_ORDER}
    assert {line.dtype for line in lines} == {"float64", "complex128"}


def test_what_is_expected_has_no_verdict_that_agrees_and_few_that_nobody_can_decide():
    count = Counter(line.verdict for line in read_lines(FILE)[0])
    assert Verdict.AGREES not in count
    assert count[Verdict.UNDECIDED] <= 2  # copysign by a number, at 1e-8: its second derivative
