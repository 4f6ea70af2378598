"""input_subsets: the gradients for every choice of inputs that require one."""

import itertools

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact

_ALL_SUBSETS_UP_TO = 4  # inputs; beyond, the subsets of one and of all but one


def _masks(count):
    masks = list(itertools.product((True, False), repeat=count))[1:-1]
    return masks if count <= _ALL_SUBSETS_UP_TO else [m for m in masks if sum(m) in (1, count - 1)]


def _run(trial):
    args = trial.arguments("vjp")
    inputs, count = trial.oracle.inputs, len(trial.primals)
    for mask in [(True,) * count, *_masks(count)]:
        names = ", ".join(name for name, flag in zip(inputs, mask, strict=True) if flag)
        tensors = trial.tensors(args)
        where = f"gradients of {names} alone"
        with under(where):
            results = trial.candidate.vjp(tensors[:count], tuple(tensors[count:]), requires_grad=mask)
        requested = {slot.label for slot, flag in zip(trial.oracle.map("vjp").results, mask, strict=True) if flag}
        yield from trial.compare("vjp", args, results, where, only=requested)
    with under("no gradient asked for"):
        outputs = trial.candidate.forward(trial.tensors(args[:count]))
    for name, y in zip(trial.oracle.outputs, outputs, strict=True):
        yield Fact(name, not y.requires_grad, "requires a gradient", "no gradient asked for", evidence=0)


CHECK = Check("input_subsets", "a gradient that is right only when every input asks for one", ("vjp",), _run)
