"""leaks: after each call its tensors and its graph are freed, without the garbage collector's help."""

import contextlib
import gc

import torch

from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import devices

_WARM_UP = 4
_CALLS = 100
_TENSORS, _MEMORY = "live tensors", "memory of the device"


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    tensors = trial.tensors(args)

    def call(backward):
        graph = trial.candidate.record(tensors[:count])
        if backward:
            graph.vjp(tensors[count:])

    with _collector_off():
        for i in range(_WARM_UP):
            call(backward=i % 2)
        before = _live(trial.device)
        for i in range(_CALLS):  # a backward may free what a forward alone, as in a validation, leaves behind
            call(backward=i % 2)
        after = _live(trial.device)
    for what, number in after.items():
        grown, unit = number - before[what], " bytes" * (what == _MEMORY)
        # A bounded cache may still fill up; a leak takes something with every call, or with every other one.
        yield Fact(what, grown < _CALLS // 2, f"grows by {grown}{unit} over {_CALLS} calls")


@contextlib.contextmanager
def _collector_off():
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _live(device):
    """The objects that are alive and were made since the last collection: only they can become more.

    And the bytes that tensors take on the device, where PyTorch counts them.
    """
    tensors = sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects(generation=0))
    memory = devices.memory_allocated(device)
    return {_TENSORS: tensors} if memory is None else {_TENSORS: tensors, _MEMORY: memory}


CHECK = Check(
    "leaks",
    "a reference cycle through ctx, or tensors that a call leaves behind",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="it counts PyTorch's tensors",
)
