"""Rounding errors drawn at random: every operation of PyTorch that runs in float64 rounds as a format does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


class RandomRounding(TorchDispatchMode):
    """Within this mode the numbers that operations take and return are moved by up to two roundings of a format.

    Views, and what an operation writes to in place, are not moved before it: they share memory with others.

    Args:
        dtype: the format, such as `torch.bfloat16`, to which the results are rounded.
        u: its unit roundoff.
        seed: of the random numbers.
    """

    def __init__(self, dtype: torch.dtype, u: float, seed: int) -> None:
        super().__init__()
        self.dtype, self.u, self.generator = dtype, u, torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation with moved inputs, and round its results."""
        kwargs = kwargs or {}
        if any(argument.alias_info is not None for argument in func._schema.arguments):
            found = func(*args, **kwargs)
            if func._schema.is_mutable:
                tree_map_only(torch.Tensor, self._rounded_in_place, found)
            return found
        moved: tuple[Any, Mapping[str, Any]] = tree_map_only(torch.Tensor, self._moved, (args, kwargs))
        return tree_map_only(torch.Tensor, self._rounded, func(*moved[0], **moved[1]))

    def _moved(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype not in (torch.float64, torch.complex128) or x.layout is not torch.strided:
            return x
        by = torch.rand(x.shape, generator=self.generator, dtype=torch.float64)
        return x * (1 + 2 * self.u * (2 * by - 1))

    def _rounded(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype not in (torch.float64, torch.complex128) or x.layout is not torch.strided:
            return x
        moved = self._moved(x)
        if x.is_complex():
            return torch.view_as_complex(torch.view_as_real(moved).to(self.dtype).to(torch.float64))
        return moved.to(self.dtype).to(torch.float64)

    def _rounded_in_place(self, x: torch.Tensor) -> torch.Tensor:
        return x.copy_(self._rounded(x))
