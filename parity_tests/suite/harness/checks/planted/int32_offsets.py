"""Offsets that are computed in 32 bits."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function


def _read_with_32_bits(x: torch.Tensor) -> torch.Tensor:
    """The entries of x, each at the sum of index times stride as an int32 has it."""
    offsets = torch.zeros(x.shape, dtype=torch.int32)
    for axis, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        steps = (torch.arange(size) * stride).to(torch.int32)  # wraps around
        offsets += steps.view([-1 if i == axis else 1 for i in range(x.dim())])
    room = x.untyped_storage().nbytes() // x.element_size()
    memory = x.as_strided((room,), (1,), 0)
    return memory[x.storage_offset() + offsets.long()]


def _cotangent_with_32_bits(x, y, g, h):
    return pair_backward(x, y, _read_with_32_bits(g), h)


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "an input's offsets in 32 bits": Mistake(
                pair_function(forward=lambda x, y: pair(_read_with_32_bits(x), y)).apply,
                "int32_offsets",
                passes=("forward", "vjp", "layouts"),
            ),
            "a cotangent's offsets in 32 bits": Mistake(
                pair_function(backward=_cotangent_with_32_bits).apply, "int32_offsets", passes=("vjp", "layouts")
            ),
        },
    ),
)
