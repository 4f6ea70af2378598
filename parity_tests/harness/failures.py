"""A failure, told: what is wrong, where, what it looks like, what agrees, and who is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parity_tests.harness import diagnosis
from parity_tests.harness.blame import blame
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.report import Failure, Row, WrongResult
from parity_tests.harness.samples import Sample
from parity_tests.harness.spec import OpSpec
from parity_tests.harness.trial import Trial


def explained(row: Row, trial: Trial, findings: list[Finding]) -> Failure:
    """What a failing row found on a trial, with every explanation that fits."""
    wrong = [f for f in findings if not f.holds]
    worst: dict[str, Finding] = {}
    for finding in wrong:  # the same result may be wrong under many circumstances: tell the first
        worst.setdefault(finding.label, finding)
    comparisons = [f for f in findings if isinstance(f, Comparison)]
    results = []
    for finding in worst.values():
        result = wrong_result(finding, None, trial.oracle.spec, row.check)
        if isinstance(finding, Comparison):
            try:
                looks_like = diagnosis.looks_like(trial, comparisons, finding)
            except Exception as error:  # the verdict stands without it
                looks_like = f"(not known: the diagnosis failed with {type(error).__name__}: {error})"
            if looks_like is not None and looks_like == f"{finding.label} = 0":
                looks_like += _not_differentiable(trial)
            result = replace(result, pattern=diagnosis.pattern(finding, trial), looks_like=looks_like)
        results.append(result)
    right = {f.label: f for f in comparisons if f.label not in worst and f.evidence}
    agrees = tuple(f"{label} ({f.error_over_bound:.2g} of its bound)" for label, f in right.items())
    failure = bare_failure(row, trial.sample, tuple(results))
    return replace(failure, agrees=agrees, judge=blame(row.check, trial))


def _not_differentiable(trial: Trial) -> str:
    """Why a gradient is zero, if the reason is that an output does not come from the inputs by any derivative."""
    if trial.candidate.framework != "torch":
        return ""
    outputs = trial.candidate.record(trial.tensors(trial.arguments("forward"))).outputs
    detached = [name for name, y in zip(trial.oracle.outputs, outputs, strict=True) if y.grad_fn is None]
    if not detached:
        return ""
    names = " and ".join(detached)
    verb = "has" if len(detached) == 1 else "have"
    return f": the candidate is not differentiable: {names} {verb} no grad_fn (detached, or computed under no_grad)"


def bare_failure(row: Row, sample: Sample, wrong: tuple[WrongResult, ...]) -> Failure:
    """A failure without explanations."""
    return Failure(
        op=row.op,
        candidate=row.candidate,
        check=row.check,
        dtype=row.dtype,
        device=row.device,
        sample=sample.name,
        why=sample.why,
        sizes=dict(sample.sizes),
        seed=sample.seed,
        wrong=wrong,
    )


def wrong_result(finding: Finding, looks_like: str | None, spec: OpSpec, check: str) -> WrongResult:
    """One finding that does not hold, under a check of this name."""
    if not isinstance(finding, Comparison):
        return WrongResult(finding.label, finding.violation, finding.circumstance)
    # An entry that cannot be judged, with an infinite bound, is none of the wrong ones.
    excess = np.where(finding.wrong, finding.error, -np.inf) - np.where(finding.wrong, finding.bound, 0.0)
    index = tuple(int(i) for i in np.unravel_index(int(excess.argmax()), excess.shape))
    equation = spec.equations.get(f"{check}/{finding.label}") or (
        spec.equations.get(finding.label) if len(ORDERS.get(check, ())) <= 1 else None
    )
    return WrongResult(
        label=finding.label,
        pattern=diagnosis.pattern(finding),
        circumstance=finding.circumstance,
        index=index,
        candidate=finding.candidate[index].item(),
        oracle=finding.oracle[index].item(),
        error=float(finding.error[index]),
        allowed=float(finding.bound[index]),
        looks_like=looks_like,
        equation=equation,
        heat=_heat(finding),
    )


def _heat(finding: Comparison) -> tuple[tuple[float, ...], ...]:
    """Error over bound of every entry, with leading axes as rows; of at most 48 x 48 blocks, the worst in each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(finding.error == 0, 0.0, finding.error / finding.bound)
    matrix = np.atleast_2d(ratio.reshape(-1, ratio.shape[-1]) if ratio.ndim else ratio)
    for axis in (0, 1):
        edges = np.unique(np.linspace(0, matrix.shape[axis], min(matrix.shape[axis], 48), endpoint=False, dtype=int))
        matrix = np.maximum.reduceat(matrix, edges, axis=axis)
    return tuple(tuple(float(x) for x in row) for row in matrix)
