"""accumulation: `.backward()` adds to the gradient that an input has already, as over micro-batches.

`torch.autograd.grad`, by which the other checks ask for gradients, adds nothing up, and leaves `.grad` alone. Here two
calls go backward into the same leaves, first without a gradient, then with one of other numbers: that of another loss.
The loss of the second call is a sum, whose gradient is one number, expanded: its cotangents have strides of 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Finding
from parity_tests.harness.trial.sums import compare_sum
from parity_tests.harness.trial.trial import Trial


def _run(trial: Trial) -> Iterator[Finding]:
    args, count = trial.arguments("vjp"), len(trial.primals)
    of_a_sum = [np.full_like(w, w.flat[0]) if w.size else w for w in trial.arguments("vjp", 1)[count:]]
    other = [*args[:count], *of_a_sum]
    there = trial.arguments("jvp")[count:]  # numbers of the shapes of the inputs
    for where, known, calls in (
        ("two calls, each with .backward()", [None] * count, (args, other)),
        ("two calls, each with .backward(), where .grad is there already", there, (args, other)),
    ):
        tensors, before = trial.tensors(args[:count]), [None if x is None else trial.tensors([x])[0] for x in known]
        with under(where):
            cotangents = trial.tensors(args[count:]), [_expanded(w) for w in trial.tensors(of_a_sum)]
            results = trial.candidate.accumulated(tensors, before, cotangents)
        for i, result in enumerate(results):
            yield from compare_sum(trial, [(x, i) for x in calls], result, where, known[i])


def _expanded(w: torch.Tensor) -> torch.Tensor:
    """One number for all entries, as the backward of `y.sum()` gives it."""
    return w.flatten()[0].expand(w.shape) if w.numel() else w


CHECK = Check(
    "accumulation",
    "a backward that writes to .grad itself, or looks at it: a gradient that replaces another, or is counted twice",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="JAX has no .grad that gradients are added to",
)
