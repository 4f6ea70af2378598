"""fake: tensors without values, by FakeTensorMode and on the device meta, give what the real ones give.

That is the shapes, dtypes and devices of outputs and gradients. The device meta is another than the CPU, as a GPU is: a
tensor that is made on the CPU by default does not meet the inputs there.
"""

import re

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests.harness.candidate import Refused, refusals
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact

_OTHER_DEVICE = "expected device meta|same device|different devices|device meta but got"


def _run(trial):
    tensors, count = trial.tensors(trial.arguments("vjp")), len(trial.primals)
    real = _described(trial.candidate, tensors, count, trial.device)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = _described(trial.candidate, [mode.from_tensor(x) for x in tensors], count, trial.device)
    yield from _compared(trial, real, fake, "under FakeTensorMode")

    on_meta = {i: x.to("meta") for i, x in trial.candidate.constants.items()}
    candidate = trial.candidate.bound(on_meta, trial.candidate.params)
    with _MadeElsewhere() as made:
        try:
            meta = _described(candidate, [x.to("meta") for x in tensors], count, "meta")
        except RuntimeError as error:
            if not re.search(_OTHER_DEVICE, str(error)):
                raise
            first_line = str(error).splitlines()[0]
            if not made.by:
                text = f"uses a tensor from outside of it, which is not where its inputs are: {first_line}"
                raise Refused(text, declared=True) from error
            text = f"{made.by[0]} makes a tensor on the CPU, wherever the inputs are: {first_line}"
            yield Fact("the device", False, text, "on the device meta")
            return
    yield from _compared(trial, real, meta, "on the device meta")


def _described(candidate, tensors, count, device):
    """Shape, dtype and device of outputs and gradients, the device of the inputs by the name "its inputs'"."""
    with refusals():
        graph = candidate.record(tensors[:count])
        gradients = graph.vjp(tensors[count:])
    where = {device: "where its inputs are"}
    return [
        None if y is None else (tuple(y.shape), y.dtype, where.get(y.device.type, y.device.type))
        for y in (*graph.outputs, *gradients)
    ]


def _compared(trial, real, found, circumstance):
    labels = [slot.label for name in ("forward", "vjp") for slot in trial.oracle.map(name).results]
    for label, expected, actual in zip(labels, real, found, strict=True):
        yield Fact(label, actual == expected, f"is {_told(actual)}, with values {_told(expected)}", circumstance)


def _told(description):
    if description is None:
        return "None"
    shape, dtype, device = description
    return f"{dtype} of shape {shape}, {device}"


class _MadeElsewhere(TorchDispatchMode):
    """Notes the calls that make a tensor on the CPU from no tensor; single numbers may be there."""

    def __init__(self):
        super().__init__()
        self.by = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        from_data = func is torch.ops.aten.lift_fresh.default  # what torch.tensor makes
        on_cpu = isinstance(result, torch.Tensor) and result.device.type == "cpu" and result.dim() > 0
        if on_cpu and (from_data or not any(isinstance(x, torch.Tensor) for x in args)):
            self.by.append("torch.tensor" if from_data else f"torch.{func.overloadpacket.__name__}")
        return result


CHECK = Check(
    "fake",
    "a fake kernel with another shape or dtype than the real one; a tensor made on the CPU, wherever the inputs are",
    (),
    _run,
    generic=True,
    one_dtype=True,
)
