"""Graphs that PyTorch's autograd records, and the gradients by them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from parity_tests.harness.candidates.base import MaybeTensors, Tensors
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_leaves import accumulate, laid_out, paired
from parity_tests.harness.candidates.torch_refusals import BackwardOnly, Refused, refusals, why_unrecorded


@dataclass(frozen=True)
class Graph:
    """A call that autograd has recorded; its backward may run later, and, if retained, again."""

    inputs: Sequence[torch.Tensor]
    outputs: Tensors
    by_backward: bool = False

    def vjp(
        self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False, create_graph: bool = False
    ) -> MaybeTensors:
        """Return the gradients; an absent cotangent reaches the backward undefined."""
        if self.by_backward and not create_graph:
            return self._accumulated(cotangents, retain_graph)
        return pullback(self.outputs, self.inputs, cotangents, create_graph, retain_graph or create_graph)

    def _accumulated(self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool) -> MaybeTensors:
        """Return the gradients that `.backward()` accumulates; see `BackwardOnly`."""
        for x in self.inputs:
            x.grad = None
        try:
            accumulate(self.outputs, cotangents, retain_graph)
        except BackwardOnly as refusal:  # it refuses both, which leaves it without a gradient
            raise refusal.__cause__ or refusal from None
        return laid_out(tuple(x.grad for x in self.inputs), self.inputs)


def pullback(
    results: Sequence[torch.Tensor | None],
    arguments: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor | None],
    create_graph: bool,
    retain_graph: bool | None = None,
) -> MaybeTensors:
    """Call autograd.grad where results or cotangents may be missing and arguments may not require a gradient."""
    pairs = paired(results, cotangents)
    wanted = [x for x in arguments if x.requires_grad]
    if not pairs or not wanted:
        return (None,) * len(arguments)
    with refusals():
        gradients = iter(
            torch.autograd.grad(
                [y for y, _ in pairs],
                wanted,
                [w for _, w in pairs],
                retain_graph=retain_graph,
                create_graph=create_graph,
                allow_unused=True,
            )
        )
    return laid_out(tuple(next(gradients) if x.requires_grad else None for x in arguments), arguments)


def differentiable_again(gradients: MaybeTensors) -> MaybeTensors:
    """Return the gradients, after a check that they may be differentiated again.

    The graph is searched, since the node by which `once_differentiable` raises is cut off from the inputs and
    `autograd.grad` never runs it.

    Raises:
        Refused: the backward is marked `once_differentiable`.
    """
    if any(node.name() == "torch::autograd::Error" for node in nodes(gradients)):
        raise Refused("its backward is marked once_differentiable", Reason.ONCE_DIFFERENTIABLE)
    return gradients


@contextlib.contextmanager
def refusing_to_differentiate_again() -> Iterator[None]:
    """Turn the refusal of a backward that goes through an operator without a derivative into a declared one."""
    try:
        yield
    except Refused as refusal:
        if "no autograd formula" not in str(refusal):
            raise
        reason = "its backward goes through an operator that has no derivative itself (register_autograd)"
        raise Refused(reason, Reason.NO_SECOND_DERIVATIVE) from refusal


@contextlib.contextmanager
def refusing_to_be_recorded(first_order: Callable[[], object]) -> Iterator[None]:
    """Turn PyTorch's refusal to differentiate a backward that works to first order into `Refused`.

    Args:
        first_order: the same backward without a record of it. An error of a backward that raises there, too, remains.
    """
    try:
        yield
    except RuntimeError as error:
        what = why_unrecorded(error)
        if what is None or not _runs(first_order):
            raise
        text = f"its backward {what}, so that PyTorch refuses to differentiate it again; to declare that, mark it "
        text += "@once_differentiable (of torch.autograd.function)"
        raise Refused(text, Reason.UNRECORDED_BACKWARD) from error


def _runs(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:
        return False
    return True


def nodes(results: Sequence[torch.Tensor | None]) -> Iterator[torch.autograd.graph.Node]:
    """Yield the nodes of the autograd graph of these tensors, each once."""
    seen, stack = set(), [y.grad_fn for y in results if y is not None]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        yield node
        seen.add(node)
        stack.extend(parent for parent, _ in node.next_functions)
