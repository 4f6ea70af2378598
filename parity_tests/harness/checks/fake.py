"""fake: tensors without values, by FakeTensorMode and on the device meta, give what the real ones give.

That is the shapes, dtypes and devices of outputs and gradients. The device meta is another than the CPU, as a GPU is: a
tensor that is made on the CPU by default does not meet the inputs there. That is no wrong derivative, but a limit.
"""

import functools
import re

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Refused, refusals
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import devices

_OTHER_DEVICE = r"expected device \w+|same device|different devices"


def _run(trial):
    tensors, count = trial.tensors(trial.arguments("vjp")), len(trial.primals)
    real = _Described(trial.candidate, tensors, count, trial.device)
    trial.counted("forward", real.outputs)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(x) for x in tensors]
        yield from _compared(trial, real, trial.candidate, fakes, trial.device, "under FakeTensorMode")

    constants = {i: None if x is None else x.to("meta") for i, x in trial.candidate.constants.items()}
    candidate, where = trial.candidate.bound(constants, trial.candidate.params), "on the device meta"
    with _MadeElsewhere() as made:
        try:
            yield from _compared(trial, real, candidate, [x.to("meta") for x in tensors], "meta", where)
        except RuntimeError as error:
            if not re.search(_OTHER_DEVICE, str(error)):
                raise
            by = f"{made.by[0]} makes a tensor on the CPU" if made.by else "it uses a tensor from outside of it"
            text = f"runs on the CPU only: {by}, wherever its inputs are: {str(error).splitlines()[0]}"
            raise Refused(text, Reason.ONE_DEVICE) from error


class _Described:
    """Descriptions, as text, of the shape, dtype and device of outputs, and of gradients."""

    def __init__(self, candidate, tensors, count, device, without_values=False):
        self.device, self.cotangents, self.without_values = device, tensors[count:], without_values
        with refusals(without_values):
            self.graph = candidate.record(tensors[:count])
        self.outputs = [self._described(y) for y in self.graph.outputs]

    @functools.cached_property
    def gradients(self):
        """The gradients of a graph whose outputs are right; else the cotangents would not fit."""
        with refusals(self.without_values):
            return [self._described(x) for x in self.graph.vjp(self.cotangents)]

    def _described(self, x):
        if x is None:
            return "None"
        where = "where its inputs are" if devices.is_on(x, self.device) else f"on {x.device.type}"
        return f"{x.dtype} of shape {tuple(x.shape)} {where}"


def _compared(trial, real, candidate, tensors, device, circumstance):
    with under(circumstance):
        found = _Described(candidate, tensors, len(trial.primals), device, without_values=True)
    for name, part in (("forward", "outputs"), ("vjp", "gradients")):
        labels = [slot.label for slot in trial.oracle.map(name).results]
        expected = getattr(real, part)
        with under(circumstance):
            actual = getattr(found, part)
        for label, x, y in zip(labels, expected, actual, strict=True):
            yield Fact(label, x == y, f"is {y}; with values it is {x}", circumstance)
        if expected != actual:
            return


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
    "a fake kernel with another shape, dtype or device than the real one",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX has abstract values of its own",
)
