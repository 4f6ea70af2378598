"""saved_tensors: the gradients when saved-tensor hooks move everything that is saved, as `save_on_cpu` does.

The hooks store contiguous copies, and the inputs and outputs themselves are overwritten: what the backward reads other
than through `save_for_backward` is lost. So are the strides of the inputs, which are transposed here.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks

from parity_tests.harness.candidates.torch_candidate import may_be_written
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.trial.layouts import transposed

_MOVED = "saved tensors moved by hooks"


def _moved(x: torch.Tensor) -> torch.Tensor:
    return x.detach().clone(memory_format=torch.contiguous_format)


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    tensors = trial.tensors(args)
    with saved_tensors_hooks(_moved, _moved), under(_MOVED):
        graph = trial.candidate.record([transposed(x) for x in tensors[:count]])
    for x in (*graph.inputs, *graph.outputs):
        if may_be_written(x) and (x.is_floating_point() or x.is_complex()):
            x.data.fill_(float("nan"))  # past the version counter, which the hooks have made irrelevant
    with under(_MOVED):
        gradients = graph.vjp(tensors[count:])
    yield from trial.compare("vjp", args, gradients, _MOVED)


CHECK = Check(
    "saved_tensors",
    "an input or output kept on ctx, past save_for_backward; strides remembered of a tensor that hooks have moved",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="saved-tensor hooks are PyTorch's",
)
