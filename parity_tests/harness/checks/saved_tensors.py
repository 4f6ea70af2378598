"""saved_tensors: the gradients when saved-tensor hooks move everything that is saved, as `save_on_cpu` does.

The hooks store contiguous copies, and the inputs and outputs themselves are overwritten: what the backward reads other
than through `save_for_backward` is lost. So are the strides of the inputs, which are transposed here.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks

from parity_tests.harness.candidates.torch_candidate import may_be_written
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.trial.functions_run_again import inputs_of_functions_run_again
from parity_tests.harness.trial.layouts import transposed

_MOVED = "saved tensors moved by hooks"


def _moved(x: torch.Tensor) -> torch.Tensor:
    return x.detach().clone(memory_format=torch.contiguous_format)


def _run(trial):
    findings, error = _attempt(trial, set())
    if error is not None or not all(f.holds for f in findings):
        again = _read_again(trial)
        if again:
            findings, error = _attempt(trial, again)
    yield from findings
    if error is not None:
        raise error


def _read_again(trial):
    """Return the inputs that a function reads from its closure when it runs again; none if it fails without hooks."""
    args = trial.arguments("vjp")
    try:
        return inputs_of_functions_run_again(lambda: _recorded(trial, args), trial.tensors(args)[len(trial.primals) :])
    except RuntimeError:
        return set()  # what has failed with hooks is reported


def _recorded(trial, args):
    return trial.candidate.record([transposed(x) for x in trial.tensors(args)[: len(trial.primals)]])


def _attempt(trial, left):
    """Return the findings, and the error that the candidate has raised; `left`: the inputs that are not overwritten."""
    args = trial.arguments("vjp")
    try:
        with saved_tensors_hooks(_moved, _moved), under(_MOVED):
            graph = _recorded(trial, args)
        for i, x in enumerate((*graph.inputs, *graph.outputs)):
            if i not in left and may_be_written(x) and (x.is_floating_point() or x.is_complex()):
                x.data.fill_(float("nan"))  # past the version counter, which the hooks have made irrelevant
        with under(_MOVED):
            gradients = graph.vjp(trial.tensors(args)[len(trial.primals) :])
    except RuntimeError as error:
        return [], error
    return [*trial.compare("vjp", args, gradients, _MOVED)], None


CHECK = Check(
    "saved_tensors",
    "an input or output kept on ctx, past save_for_backward; strides remembered of a tensor that hooks have moved",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="saved-tensor hooks are PyTorch's",
)
