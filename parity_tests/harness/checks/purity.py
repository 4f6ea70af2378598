"""purity: inputs, cotangents and tangents are left as they were, and a second backward says the same as the first.

In PyTorch a write that puts the old values back counts, too: another thread may read in between, and autograd refuses
to use what it has saved. Candidates in other frameworks get arrays of their own, which are compared before and after.
Nor are settings of the process left changed, nor its seed.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from parity_tests.harness.candidates.own_arrays import Writes
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact, Finding, NotApplicable
from parity_tests.harness.numbers import conversion, numerics
from parity_tests.harness.trial.trial import Trial


def _unwritten(names, tensors, before, versions, circumstance):
    for name, tensor, values, version in zip(names, tensors, before, versions, strict=True):
        same = np.array_equal(conversion.to_numpy(tensor), values, equal_nan=True)
        text = "was written to" + (", and has its old values again" if same else "")
        yield Fact(name, same and tensor._version == version, text, circumstance)


def _versions(tensors):
    """The version counter of each tensor: how often it was written to in place, as autograd counts."""
    return [x._version for x in tensors]


def _run(trial: Trial) -> Iterator[Finding]:
    yield from _of_tensors(trial) if trial.candidate.framework == "torch" else _of_own_arrays(trial)


def _of_own_arrays(trial: Trial) -> Iterator[Finding]:
    """The findings on a candidate whose framework gets copies of the tensors' numbers, in arrays of its own."""
    spec = trial.oracle.spec
    inputs = spec.names
    for name in ("forward", "vjp", "jvp"):
        args = trial.arguments(name)
        directions = [slot.label for slot in trial.oracle.map(name).arguments[len(trial.primals) :]]
        writes = Writes()
        candidate = trial.candidate.watching(writes)
        if candidate is None:
            raise NotApplicable(f"a candidate in {trial.candidate.framework} does not tell which arrays it writes to")
        watched = replace(trial, candidate=candidate)
        try:
            first = watched.evaluate(name, args)
            second = watched.evaluate(name, args) if name == "vjp" else first
        except Refused:
            continue  # the check of that name reports it
        for labels, written in ((inputs, writes.inputs), (directions, writes.directions)):
            for i, label in enumerate(labels):
                yield Fact(label, i not in written, "was written to", f"after the {name}")
        for slot, x, y in zip(trial.oracle.map(name).results, first, second, strict=True):
            if name == "vjp":
                yield Fact(slot.label, _same(x, y), "differs between two calls", "backward twice")


def _same(x: torch.Tensor | None, y: torch.Tensor | None) -> bool:
    """Return whether two results are the same, bit by bit but for the sign of zero and NaNs; None is no zero."""
    if x is None or y is None:
        return x is y
    return np.array_equal(conversion.to_numpy(x), conversion.to_numpy(y), equal_nan=True)


def _of_tensors(trial: Trial) -> Iterator[Finding]:
    """The findings on a candidate in PyTorch."""
    with numerics.left() as changed:
        yield from _left_as_they_were(trial)
    for name, value in changed.items():
        yield Fact(name, False, f"is left at {value}", "after its calls")


def _left_as_they_were(trial: Trial) -> Iterator[Finding]:
    count = len(trial.primals)
    args, names = trial.arguments("vjp"), [slot.label for slot in trial.oracle.map("vjp").arguments]
    tensors = trial.tensors(args)
    versions, graph = _versions(tensors), trial.candidate.record(tensors[:count])
    outputs = trial.counted("forward", graph.outputs)
    yield from _unwritten(names[:count], tensors[:count], args[:count], versions[:count], "after the forward")

    values, versions_of_outputs = [conversion.to_numpy(y) for y in outputs], _versions(outputs)
    if any(y.requires_grad for y in outputs):
        first, second = (graph.vjp(tensors[count:], retain_graph=True) for _ in range(2))
        yield from _unwritten(names, tensors, args, versions, "after the backward")
        yield from _unwritten(trial.oracle.outputs, outputs, values, versions_of_outputs, "after the backward")
        for name, x, y in zip(trial.oracle.inputs, first, second, strict=True):
            yield Fact(f"{name}_bar", _same(x, y), "differs between two backwards of the same graph", "backward twice")

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
    "an input, output, cotangent or tangent that is written to; a backward that keeps state; a setting left changed",
    (),
    _run,
    not_jax="JAX arrays are immutable",
)
