"""Why a gradient is zero: the candidate is not differentiable."""

from __future__ import annotations

from parity_tests.harness.diagnosis.remark import Remark
from parity_tests.harness.trial.trial import Trial


def why_zero(trial: Trial) -> Remark | None:
    """Why a gradient is zero, if the reason is that an output does not come from the inputs by any derivative."""
    if trial.candidate.framework != "torch":
        return None
    outputs = trial.candidate.record(trial.tensors(trial.arguments("forward"))).outputs
    detached = [name for name, y in zip(trial.oracle.outputs, outputs, strict=True) if y.grad_fn is None]
    if detached:
        names = " and ".join(detached)
        verb = "has" if len(detached) == 1 else "have"
        return Remark(
            f"the candidate is not differentiable: {names} {verb} no grad_fn (detached, or computed under no_grad)"
        )
    return None
