"""make_fx: the forward and the VJP, traced at some inputs and run at others.

Traced with fake tensors, which have no values: what reads values (an `.item()` that decides, NumPy) is refused by
PyTorch. With real ones it would become a constant of the graph without a word, as PyTorch documents. So would what
another thread computes: PyTorch traces a thread at a time, and what the candidate starts is none of its own.
"""

import threading

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Refused, refusals
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under


def _run(trial):
    first, other = (trial.arguments("vjp", example) for example in range(2))
    count = len(trial.primals)

    def forward_and_vjp(*args):
        graph = trial.candidate.record(args[:count])
        results = (*graph.outputs, *graph.vjp(args[count:]))
        present[:] = [y is not None for y in results]
        return [y for y in results if y is not None]

    present: list[bool] = []
    with _Started() as started, under("traced with fake tensors"), refusals(without_values=True):
        traced = make_fx(forward_and_vjp, tracing_mode="fake", _allow_non_fake_inputs=True)(*trial.tensors(first))
    if started.threads:
        raise Refused("starts a thread, whose operations PyTorch does not trace", Reason.THREADS)
    with torch.no_grad(), under("traced at other inputs"):
        remaining = iter(traced(*trial.tensors(other)))
    results = [next(remaining) if there else None for there in present]
    split = len(trial.oracle.outputs)
    yield from trial.compare("forward", other[:count], results[:split], "traced at other inputs")
    yield from trial.compare("vjp", other, results[split:], "traced at other inputs")


class _Started:
    """Notes the threads that are started in its context."""

    def __enter__(self):
        self.threads, self.before = set(), threading.getprofile()
        threading.setprofile(lambda *event: self.threads.add(threading.get_ident()))  # of threads yet to come
        return self

    def __exit__(self, *error):
        threading.setprofile(self.before)


CHECK = Check(
    "make_fx",
    "a path of its own for tensors without values that is wrong",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="make_fx is PyTorch's",
)
