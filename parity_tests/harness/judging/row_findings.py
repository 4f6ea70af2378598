"""The update of a row by what a check found at one more sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from parity_tests.harness.findings import Comparison, Convention, Explanation, Finding, LostDigits, Proof
from parity_tests.harness.judging.outcome import Outcome
from parity_tests.harness.judging.titles import extent_of
from parity_tests.harness.numbers.contracts import INSIDE_FLOAT32, THROUGHOUT
from parity_tests.harness.report.results import Row


def with_outcome(row: Row, outcome: Outcome) -> Row:
    """A row, and what was found on one more sample, which it names if it is the largest so far."""
    row, sample = with_findings(row, outcome.findings), outcome.trial.sample
    if not outcome.findings or sample.entries <= row.numbers:
        return row
    oracle = outcome.trial.oracle
    whole = sum(math.prod(x.shape) for x in oracle.spec.given_size)
    return replace(row, largest=extent_of(sample, oracle), numbers=sample.entries, of_numbers=whole)


def with_findings(row: Row, findings: Sequence[Finding]) -> Row:
    """A row, and what was found on one more sample."""
    worst = max((f.error_over_bound for f in findings if isinstance(f, Comparison)), default=0.0)
    count = sum(f.evidence for f in findings)
    texts = [f"{f.label} ({f.circumstance}) is {f.text}" for f in findings if isinstance(f, Convention)]
    lost = [
        f"{f.label} {f.text}{f' ({f.circumstance})' if f.circumstance else ''}"
        for f in findings
        if isinstance(f, LostDigits)
    ]
    linearized = [f.label for f in findings if isinstance(f, Comparison) and f.linearized]
    return replace(
        row,
        error_over_bound=max(row.error_over_bound, worst),
        comparisons=row.comparisons + count,
        conventions=(*row.conventions, *texts),
        lost_digits=(*row.lost_digits, *lost),
        proofs=(*row.proofs, *(f"{f.label} {f.text}" for f in findings if isinstance(f, Proof))),
        linearized=tuple(dict.fromkeys((*row.linearized, *linearized))),
        arithmetic=_arithmetic(row, [f for f in findings if isinstance(f, Explanation)]),
    )


def _arithmetic(row: Row, explanations: Sequence[Explanation]) -> dict[str, str]:
    """The arithmetic that explains each result at every sample so far: of two samples, that which rounds more."""
    arithmetic = dict(row.arithmetic)
    for f in explanations:
        arithmetic[f.label] = max(arithmetic.get(f.label, f.text), f.text, key=_rounds)
    return arithmetic


def _rounds(text: str) -> int:
    """How much an arithmetic rounds: least float32 inside, most every operation, and alike all between."""
    return {str(INSIDE_FLOAT32): 0, str(THROUGHOUT): 2}.get(text, 1)
