"""Leaves of PyTorch's autograd, and the backward that adds to their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

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
