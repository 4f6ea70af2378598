"""Prints the copies to the host and to the device that a call, its backward and a second backward of each take."""

from __future__ import annotations

from collections.abc import Callable

import torch

import torch_impl
from parity_tests.suite.pretend import strangers
from parity_tests.suite.pretend.verdicts import tell


def transfers(call: Callable, shapes: list[tuple[int, ...]]) -> list[int]:
    """Copies to the host, and to the device."""
    inputs = [torch.randn(shape, device="pretend").requires_grad_() for shape in shapes]
    before = torch.pretend.transfers()
    results = call(*inputs)
    outputs = results if isinstance(results, tuple) else (results,)
    cotangents = [torch.ones_like(y) for y in outputs]
    gradients = torch.autograd.grad(outputs, inputs, cotangents, create_graph=True)
    torch.autograd.grad(gradients, inputs, [torch.ones_like(x) for x in gradients])
    return [after - first for after, first in zip(torch.pretend.transfers(), before, strict=True)]


if __name__ == "__main__":
    attn = {name: getattr(torch_impl, name) for name in ("attn_composite", "attn_function")}
    product = {name: strangers.candidates[name] for name in ("right", "over_the_cpu")}
    found = {name: transfers(call, [(4, 3), (5, 3), (5, 2)]) for name, call in attn.items()}
    found |= {name: transfers(call, [(4,), (4,)]) for name, call in product.items()}
    tell(found)
