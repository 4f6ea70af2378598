"""in_place: an input or output edited in place after the forward makes the backward raise, or does not matter."""

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
        edited = (*graph.inputs, *graph.outputs)[i]
        if not may_be_written(edited):
            continue
        edited.detach().add_(1)  # through detach, which shares the version counter
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


CHECK = Check(
    "in_place",
    "silently wrong gradients after an in-place edit: a tensor saved past autograd's version counter",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX arrays are immutable",
)
