"""purity: inputs, cotangents and tangents are left as they were, and a second backward says the same as the first.

A write that puts the old values back counts, too: another thread may read in between, and autograd refuses to use what
it has saved.
"""

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import Refused, refusals
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import conversion


def _unwritten(names, tensors, before, versions, circumstance):
    for name, tensor, values, version in zip(names, tensors, before, versions, strict=True):
        same = np.array_equal(conversion.to_numpy(tensor), values, equal_nan=True)
        text = "was written to" + (", and has its old values again" if same else "")
        yield Fact(name, same and tensor._version == version, text, circumstance)


def _versions(tensors):
    """The version counter of each tensor: how often it was written to in place, as autograd counts."""
    return [x._version for x in tensors]


def _run(trial):
    count = len(trial.primals)
    args, names = trial.arguments("vjp"), [slot.label for slot in trial.oracle.map("vjp").arguments]
    tensors = trial.tensors(args)
    leaves, versions = [x.requires_grad_() for x in tensors[:count]], _versions(tensors)
    outputs = trial.counted("forward", trial.candidate.forward(leaves))
    yield from _unwritten(names[:count], leaves, args[:count], versions[:count], "after the forward")

    values, versions_of_outputs = [conversion.to_numpy(y) for y in outputs], _versions(outputs)
    results = [(y, w) for y, w in zip(outputs, tensors[count:], strict=True) if y.requires_grad]
    if results:
        roots, cotangents = zip(*results, strict=True)
        with refusals():
            first, second = (
                torch.autograd.grad(roots, leaves, cotangents, retain_graph=True, allow_unused=True) for _ in range(2)
            )
        yield from _unwritten(names, tensors, args, versions, "after the backward")
        yield from _unwritten(trial.oracle.outputs, outputs, values, versions_of_outputs, "after the backward")
        for name, x, y in zip(trial.oracle.inputs, first, second, strict=True):
            same = (x is None and y is None) or (
                x is not None and y is not None and np.array_equal(conversion.to_numpy(x), conversion.to_numpy(y), True)
            )
            yield Fact(f"{name}_bar", same, "differs between two backwards of the same graph", "backward twice")

    args, names = trial.arguments("jvp"), [slot.label for slot in trial.oracle.map("jvp").arguments]
    tensors = trial.tensors(args)
    versions = _versions(tensors)
    try:
        trial.candidate.jvp(tensors[:count], tensors[count:])
    except Refused:
        return  # the check "jvp" reports it
    yield from _unwritten(names, tensors, args, versions, "after the jvp")


CHECK = Check(
    "purity",
    "an input, output, cotangent or tangent that is written to; a backward that keeps state",
    (),
    _run,
    torch_only="JAX arrays are immutable",
)
