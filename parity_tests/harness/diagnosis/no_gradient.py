"""Why a gradient is zero: the candidate is not differentiable, or returns None in its place."""

from __future__ import annotations

from parity_tests.harness.diagnosis.remark import Remark
from parity_tests.harness.findings import Comparison
from parity_tests.harness.trial.trial import Trial


def why_zero(trial: Trial, wrong: Comparison) -> Remark | None:
    """Why a gradient is zero, if the reason is that there is none; None of a tensor of zeros.

    No output may come from the inputs by any derivative, or autograd has None for this input.
    """
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
    return _none_returned(trial, wrong)


def _none_returned(trial: Trial, wrong: Comparison) -> Remark | None:
    if wrong.call is None:
        return None
    name, args = wrong.call
    labels = [slot.label for slot in trial.oracle.map(name).results]
    if trial.evaluate(name, args)[labels.index(wrong.label)] is not None:
        return None
    returned = "the candidate returns None for it"
    if name != "vjp":
        return Remark(returned)
    of = trial.oracle.inputs[labels.index(wrong.label)]
    if len(trial.oracle.inputs) == 1:  # nothing would be differentiated without it
        return Remark(returned, f"Return the gradient of {of}")
    declared = f'constants=["{of}"] of OpSpec'
    if trial.oracle.spec.signature is not None:
        declared = f'"{_written(trial, of)} constant" among the inputs, or {declared}'
    return Remark(
        f"{returned}; an input that has no gradient is declared constant: {declared}",
        f"Return the gradient of {of}, or declare {of} constant if it is to have none",
    )


def _written(trial: Trial, name: str) -> str:
    """An input as it is written among the inputs of a spec: "t: (n)"."""
    spec = trial.oracle.spec
    assert spec.parsed is not None
    return f"{name}: ({','.join(spec.parsed.inputs[spec.names.index(name)])})"
