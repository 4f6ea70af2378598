"""leaks: after each call its tensors and its graph are freed, without the garbage collector's help."""

import contextlib
import gc

import torch

from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import devices

_WARM_UP = 4
_CALLS = 100
_SEVERAL = 10  # calls, halfway and at the end, between which memory is compared


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
        before, memory = _live_tensors(), list[int | None]()
        for i in range(_CALLS):  # a backward may free what a forward alone, as in a validation, leaves behind
            call(backward=i % 2)
            memory.append(devices.memory_allocated(trial.device))
        grown = _live_tensors() - before
    # A bounded cache may still fill up; a leak takes something with every call, or with every other one.
    yield Fact("live tensors", grown < _CALLS // 2, f"grows by {grown} over {_CALLS} calls")
    known = [taken for taken in memory if taken is not None]
    if known:
        # Autograd's thread of a device frees the last tensors a little later: the least at the end is compared with
        # the most halfway.
        leaks = min(known[-_SEVERAL:]) > max(known[_CALLS // 2 : _CALLS // 2 + _SEVERAL])
        yield Fact("memory of the device", not leaks, f"grows by {known[-1] - known[0]} bytes over {_CALLS} calls")


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


CHECK = Check(
    "leaks",
    "a reference cycle through ctx, or tensors that a call leaves behind",
    (),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="it counts PyTorch's tensors",
)
