"""make_fx: the forward and the VJP, traced at some inputs and run at others.

Traced with fake tensors, which have no values: what reads values (an `.item()` that decides, NumPy) is refused by
PyTorch. With real ones it would become a constant of the graph without a word, as PyTorch documents.
"""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from parity_tests.harness.candidate import refusals
from parity_tests.harness.checks.check import Check


def _run(trial):
    first, other = (trial.arguments("vjp", example) for example in range(2))
    count, names = len(trial.primals), (*trial.oracle.outputs, *trial.oracle.inputs)

    def forward_and_vjp(*args):
        graph = trial.candidate.record(args[:count])
        results = (*graph.outputs, *graph.vjp(args[count:]))
        present[:] = [y is not None for y in results]
        return [y for y in results if y is not None]

    present: list[bool] = []
    with refusals():
        traced = make_fx(forward_and_vjp, tracing_mode="fake", _allow_non_fake_inputs=True)(*trial.tensors(first))
    for args, where in ((first, "traced there"), (other, "traced at other inputs")):
        with torch.no_grad():
            remaining = iter(traced(*trial.tensors(args)))
        results = [next(remaining) if there else None for there in present]
        split = len(names) - count
        yield from trial.compare("forward", args[:count], results[:split], where)
        yield from trial.compare("vjp", args, results[split:], where)


CHECK = Check(
    "make_fx",
    "a value that tracing turns into a constant; a path of its own for fake tensors that is wrong",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
)
