"""Leaves of PyTorch's autograd, and the backward that adds to their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from parity_tests.harness.candidates.base import MaybeTensors
from parity_tests.harness.candidates.torch_refusals import BadOutput, refusals


def leaves_of(args: Sequence[torch.Tensor], requires_grad: Sequence[bool] | None = None) -> list[torch.Tensor]:
    """Return leaves that share the memory of these tensors.

    A tensor that is given twice becomes one leaf, and an `nn.Parameter` becomes one.
    """
    flags = [True] * len(args) if requires_grad is None else requires_grad
    found: dict[tuple[int, bool], torch.Tensor] = {}
    for x, flag in zip(args, flags, strict=True):
        if (id(x), flag) not in found:
            found[id(x), flag] = _leaf(x, flag)
    return [found[id(x), flag] for x, flag in zip(args, flags, strict=True)]


def _leaf(x: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    if isinstance(x, torch.nn.Parameter):
        return torch.nn.Parameter(x.detach(), requires_grad)
    return x.detach().requires_grad_(requires_grad)


def paired(
    results: Sequence[torch.Tensor | None], cotangents: Sequence[torch.Tensor | None]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return each result that can be differentiated, with its cotangent."""
    if len(results) != len(cotangents):
        raise BadOutput(f"returned {len(results)} outputs, expected {len(cotangents)}")
    pairs = zip(results, cotangents, strict=True)
    return [(y, w) for y, w in pairs if y is not None and w is not None and y.requires_grad]


def accumulate(
    results: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False
) -> None:
    """Call `.backward()` of the results that can be differentiated, if there are any."""
    pairs = paired(results, cotangents)
    if pairs:
        with refusals():
            torch.autograd.backward([y for y, _ in pairs], [w for _, w in pairs], retain_graph=retain_graph)


def laid_out(gradients: MaybeTensors, inputs: Sequence[torch.Tensor]) -> MaybeTensors:
    """Return the gradients, after a check that each has the layout of its input: an optimizer adds one to the other.

    Raises:
        BadOutput: one is sparse or nested, and its input is not.
    """
    for place, (x, gradient) in enumerate(zip(inputs, gradients, strict=True), 1):
        if gradient is not None and (gradient.layout is not x.layout or gradient.is_nested is not x.is_nested):
            found, expected = _layout_of(gradient), _layout_of(x)
            raise BadOutput(f"returned a gradient for input {place} that is {found}, where the input is {expected}")
    return gradients


def _layout_of(x: torch.Tensor) -> str:
    return f"nested, {x.layout}" if x.is_nested else str(x.layout)
