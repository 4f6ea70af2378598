"""crosscheck as a rule: the spec of an operator at the inputs that the other rules see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from benchmarks.fault_benchmark.versions import format_of
from gradparity import OpSpec, crosscheck
from parity_tests.harness.checks.check import Check
from parity_tests.harness.diagnosis.failures import described
from parity_tests.harness.judging import candidate_rows
from parity_tests.harness.judging.outcome import Outcome
from parity_tests.harness.judging.turn import Turn
from parity_tests.harness.report.results import Failure, Row
from parity_tests.operators.operator import Operator, Tensors

CONVICTED, SUSPECTED = "crosscheck", "crosscheck, SUSPECT too"
_CONVICTIONS = {"MISMATCH", "ERROR"}
RULES = (CONVICTED, SUSPECTED)


@dataclass(frozen=True)
class Judged:
    """The verdicts on one version: those of its outputs and of its VJP."""

    verdicts: frozenset[str]

    def rejected_by(self, rule: str) -> bool | None:
        """Return whether the version is rejected if `SUSPECT` rejects or does not, None if it could not be judged."""
        rejecting = _CONVICTIONS | ({"SUSPECT"} if rule == SUSPECTED else set())
        if self.verdicts & rejecting:
            return True
        return None if "UNRESOLVED" in self.verdicts else False


def spec_of(operator: Operator, inputs: Tensors) -> OpSpec:
    """Return the spec of an operator that is judged at these inputs."""
    return OpSpec(
        operator.written.name,
        operator.spec.primal,
        inputs=[x.double().numpy() if x.is_floating_point() else x.numpy() for x in inputs],
        input_names=operator.spec.names,
        constants=operator.spec.constants,
    )


def judged(calls: Mapping[str, Callable[..., Any]], operator: Operator, inputs: Tensors) -> dict[str, Judged]:
    """Judge versions by `crosscheck`: their outputs and their VJP, in the format of the inputs, and how these err.

    `crosscheck` draws the cotangents itself. Most of its time goes into the explanation of what it rejects, which comes
    after the verdict and is left out here.
    """
    with mock.patch.object(candidate_rows, "failure_of", without_explanation):
        report = crosscheck(
            calls,
            spec_of(operator, inputs),
            checks=["forward", "vjp", "low_precision"],
            dtypes=[format_of(inputs)],
            progress=False,
        )
    return {name: _judged([row for row in report.rows if row.candidate == name], name) for name in calls}


def _judged(rows: Sequence[Row], name: str) -> Judged:
    if not rows:
        raise ValueError(f"crosscheck has no row for {name!r}")
    return Judged(frozenset(str(row.verdict) for row in rows))


def without_explanation(
    turn: Turn, row: Row, check: Check, outcome: Outcome, outcomes: Sequence[Outcome], shrink: bool
) -> Failure:
    """Return the failure of a row that says what is wrong and no more."""
    return described(row, outcome.trial.sample, [f for f in outcome.findings if not f.holds], turn.plan.spec)
