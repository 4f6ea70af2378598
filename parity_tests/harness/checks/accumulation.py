"""accumulation: `.backward()` adds to the gradient that an input has already, as over micro-batches.

`torch.autograd.grad`, by which the other checks ask for gradients, adds nothing up, and leaves `.grad` alone. Here two
calls go backward into the same leaves, first without a gradient, then with one of other numbers: that of another loss.
"""

from __future__ import annotations

from collections.abc import Iterator

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Finding
from parity_tests.harness.trial.sums import compare_sum
from parity_tests.harness.trial.trial import Trial


def _run(trial: Trial) -> Iterator[Finding]:
    args, count = trial.arguments("vjp"), len(trial.primals)
    other = [*args[:count], *trial.arguments("vjp", 1)[count:]]
    there = trial.arguments("jvp")[count:]  # numbers of the shapes of the inputs
    for where, known, calls in (
        ("two calls, each with .backward()", [None] * count, (args, other)),
        ("two calls, each with .backward(), where .grad is there already", there, (args, other)),
    ):
        tensors, before = trial.tensors(args[:count]), [None if x is None else trial.tensors([x])[0] for x in known]
        with under(where):
            cotangents = [trial.tensors(x[count:]) for x in calls]
            results = trial.candidate.accumulated(tensors, before, cotangents)
        for i, result in enumerate(results):
            yield from compare_sum(trial, [(x, i) for x in calls], result, where, known[i])


CHECK = Check(
    "accumulation",
    "a backward that writes to .grad itself, or looks at it: a gradient that replaces another, or is counted twice",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX has no .grad that gradients are added to",
)
