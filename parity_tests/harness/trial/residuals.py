"""Residuals: what a custom Function keeps for its backward, past its inputs and outputs.

autograd takes such a tensor for a constant, so that double backward is silently wrong; unless the backward is marked
`once_differentiable`, or works the tensor out again while gradients are recorded. To keep one is therefore no mistake
in itself: it is what explains one that a comparison has found.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from parity_tests.harness.candidates.base import Recorded
from parity_tests.harness.candidates.torch_graphs import nodes
from parity_tests.harness.findings import Fact
from parity_tests.harness.trial.trial import Trial


def residuals(trial: Trial) -> Iterator[Fact]:
    """A violation for each tensor that a Function keeps as a constant although it changes with the inputs."""
    first, second = (
        list(_constants(trial.candidate.record(trial.tensors(trial.arguments("forward", example)))))
        for example in range(2)
    )
    for (name, x), (_, other) in zip(first, second, strict=False):  # the graphs may differ where values decide
        if x.shape != other.shape or not torch.equal(x, other):
            text = f"saves an intermediate of shape {tuple(x.shape)}, which is a constant to autograd in second order"
            yield Fact(name, False, text)


def _constants(graph: Recorded) -> Iterator[tuple[str, torch.Tensor]]:
    known = {x.untyped_storage().data_ptr() for x in (*graph.inputs, *graph.outputs)}
    for node in nodes(graph.outputs):
        if not isinstance(node, torch.autograd.function.BackwardCFunction):
            continue
        for x in (*node.saved_tensors, *vars(node).values()):
            is_number = isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
            if is_number and not x.requires_grad and x.untyped_storage().data_ptr() not in known:
                yield node.name().removesuffix("Backward"), x
