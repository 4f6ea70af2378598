"""leaks: after each call its tensors and its graph are freed, without the garbage collector's help."""

import contextlib
import gc

import torch

from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import devices

_WARM_UP = 4
_CALLS = 100
_HALF = _CALLS // 2


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
        before, memory = _live_tensors(), []
        for i in range(_CALLS):  # a backward may free what a forward alone, as in a validation, leaves behind
            call(backward=i % 2)
            if i + 1 in (_HALF, _CALLS):
                memory.append(_memory(trial.device))
        grown = _live_tensors() - before
    # A bounded cache may still fill up; a leak takes something with every call, or with every other one.
    yield Fact("live tensors", grown < _HALF, f"grows by {grown} over {_CALLS} calls")
    halfway, end = memory
    if halfway is not None:
        yield Fact("memory of the device", end <= halfway, f"grows by {end - halfway} bytes over {_HALF} calls")


@contextlib.contextmanager
def _collector_off():
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _live_tensors():
    """The tensors that are alive and were made since the last collection: only they can become more."""
    return sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects(generation=0))


def _memory(device):
    """The bytes that tensors take on a device, once its thread of autograd is idle; None where nobody counts them."""
    if devices.memory_allocated(device) is not None:
        # That thread may free the last tensors of a backward after this one goes on, but before the next backward.
        x = torch.zeros(0, dtype=torch.float32, device=device, requires_grad=True)
        torch.autograd.grad(x * 1, x, torch.zeros_like(x))
    return devices.memory_allocated(device)


CHECK = Check(
    "leaks",
    "a reference cycle through ctx, or tensors that a call leaves behind",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="it counts PyTorch's tensors",
)
