"""determinism: the same outputs and gradients bit for bit, run after run, and from several threads at once.

On CUDA, where sums by atomic additions come in another order every time, within the bound of rounding. So is what JAX
computes of a candidate outside of a trace.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from torch.autograd import forward_ad

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.numbers import conversion
from parity_tests.harness.solutions.guest.stepping import InStep

_RUNS = 3
_THREADS = 4
_ROUNDS = 3


def _run(trial):
    examples = [trial.arguments("vjp", example) for example in range(2)]
    first = [_values(trial, args) for args in examples]
    for _ in range(_RUNS - 1):
        yield from _compared(trial, examples[0], first[0], _values(trial, examples[0]), "run again")
    for i, results, where in _from_threads(trial, examples):
        yield from _compared(trial, examples[i], first[i], results, where)
    untraced = replace(trial, candidate=trial.candidate.untraced)
    if untraced.candidate is not trial.candidate:
        for name in ("forward", "vjp"):
            args = trial.arguments(name)
            yield from trial.compare(name, args, untraced.evaluate(name, args), "outside of jit")


def _values(trial, args):
    """Outputs and gradients."""
    tensors, count = trial.tensors(args), len(trial.primals)
    graph = trial.candidate.record(tensors[:count])
    return [*graph.outputs, *graph.vjp(tensors[count:])]


def _from_threads(trial, examples):
    """The results of several threads at once, of which every other one computes the other example.

    They go through the candidate in step: none makes its next call before all have made the last one. Calls as short as
    these would otherwise hardly ever meet.
    """
    start, seen, steps = threading.Barrier(_THREADS), set(), InStep()

    def in_step(which):
        torch.set_num_threads(1)  # as in the thread that started this one
        with steps.running(lambda: seen.add(forward_ad._current_level >= 0)):
            return which, _values(trial, examples[which]), "from several threads"

    def together(thread):
        steps.join()
        start.wait()
        return in_step(thread % len(examples))

    with ThreadPoolExecutor(_THREADS) as pool:
        pool.submit(in_step, 0).result()
        if True in seen:
            raise Refused("goes through forward AD, whose level all threads share in PyTorch", Reason.SHARED_LEVEL)
        return [result for _ in range(_ROUNDS) for result in pool.map(together, range(_THREADS))]


def _compared(trial, args, expected, results, where):
    count = len(trial.primals)
    truths = [*trial.truth("forward", args[:count]), *trial.truth("vjp", args)]
    for truth, x, y in zip(truths, expected, results, strict=True):
        if trial.device == "cpu":
            value = np.zeros_like(truth.value) if x is None else conversion.to_numpy(x)
            truth = replace(truth, value=value, bound=np.zeros(value.shape))
        yield from trial.compare_result("vjp", truth, y, where)


CHECK = Check(
    "determinism",
    "values that change from run to run, memory that was never written, a buffer that threads share",
    ("vjp",),
    _run,
    generic=True,
    costly=True,
)
