"""The values of formulas in Python, where PyTorch's C++ has a type that Python lacks.

An undefined tensor and an empty optional are `None`; a Scalar is a Python number; an array is a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

Scope = Mapping[str, Any]


@dataclass(frozen=True)
class TensorOptions:
    """at::TensorOptions: what `x.options()` gives to a function that makes a tensor."""

    dtype: torch.dtype
    layout: torch.layout
    device: torch.device

    @staticmethod
    def of(x: torch.Tensor) -> TensorOptions:
        """The options of a tensor."""
        return TensorOptions(x.dtype, x.layout, x.device)


@dataclass(frozen=True)
class TensorGeometry:
    """at::TensorGeometry: where a tensor's entries lie in its memory."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @staticmethod
    def of(x: torch.Tensor) -> TensorGeometry:
        """The geometry of a tensor."""
        return TensorGeometry(tuple(x.shape), x.stride(), int(x.storage_offset()))


class Dual(NamedTuple):
    """An item of a list of tensors in forward mode: its primal, and its tangent or `None`."""

    primal: torch.Tensor
    tangent: torch.Tensor | None
