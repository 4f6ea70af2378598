"""in_place: an input or output edited in place after the forward makes the backward raise, or does not matter.

An output may be an input, or a view of one, as that of `reshape`, of `contiguous` or of dropout in evaluation is:
whoever edits one edits the other, and autograd counts it for both. No candidate is blamed for that, whatever its
reference does. What shares memory behind autograd's back is a mistake: an output made of `x.data`, of DLPack or by a
kernel that returns its input's memory, and two such outputs. Then an edit of one changes the other, and whoever has
saved that is not told.
"""

import re

from parity_tests.harness.candidates.torch_candidate import may_be_written
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact

_RAISED = "modified (by an )?inplace"  # the words of autograd's version counter, and of its views


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    for i, name in enumerate((*trial.oracle.inputs, *trial.oracle.outputs)):
        tensors = trial.tensors(args)
        graph = trial.candidate.record(tensors[:count])
        edited = (*graph.inputs, *trial.counted("forward", graph.outputs))[i]
        if not may_be_written(edited):
            continue
        others = [x for x in (*graph.inputs, *graph.outputs) if x is not edited]
        before = [(x.detach().clone(), x._version) for x in others]
        edited.detach().add_(1)  # through detach, which shares the version counter
        yield from _changed_unnoticed(trial, graph, others, before, f"{name} edited in place")
        where = f"{name} edited in place before the backward"
        try:
            with under(where):
                results = graph.vjp(tensors[count:])
        except RuntimeError as error:
            if not re.search(_RAISED, str(error)):
                raise
            yield Fact(name, True, "", where)
            continue
        yield from trial.compare("vjp", args, results, where)


def _changed_unnoticed(trial, graph, others, before, where):
    """The tensors that have changed with the edited one, and of which autograd has not counted it."""
    names = dict(
        zip(map(id, (*graph.inputs, *graph.outputs)), (*trial.oracle.inputs, *trial.oracle.outputs), strict=True)
    )
    for x, (values, version) in zip(others, before, strict=True):
        same = (x == values) | (x.isnan() & values.isnan())
        if x._version == version and not same.all():
            text = "changes with it, unnoticed by autograd: return a copy, or a view that PyTorch makes"
            yield Fact(names[id(x)], False, text, where)


CHECK = Check(
    "in_place",
    "silently wrong gradients after an in-place edit: what is saved, or shares memory, past autograd's version counter",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX arrays are immutable",
)
