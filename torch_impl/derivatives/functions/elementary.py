"""Small functions that many formulas share, and those that only hand values on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_impl.derivatives.errors import DerivativeNotImplemented
from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.values import Dual

Number = int | float | complex


@manual
def handle_r_to_c(of: torch.dtype | Tensor, gradient: Tensor) -> Tensor:
    """handle_r_to_c: the gradient of a real input is real, though the output was complex."""
    dtype = of.dtype if isinstance(of, Tensor) else of
    return gradient.real if gradient.is_complex() and not dtype.is_complex else gradient


@manual
def maybe_multiply(x: Tensor, factor: Number) -> Tensor:
    """maybe_multiply: a product that is spared where the factor is one."""
    return x if factor == 1 else x * factor


@manual
def isDifferentiableType(dtype: torch.dtype) -> bool:
    """isDifferentiableType."""
    return dtype.is_floating_point or dtype.is_complex


@manual
def sum_to(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """at::sum_to: the transpose of broadcasting from `sizes` to the shape of x.

    Raises:
        RuntimeError: x's shape is not one that `sizes` broadcasts to.
    """
    return x.sum_to_size(tuple(sizes)) if list(x.shape) != list(sizes) else x


@manual
def not_implemented(name: str, reason: str = "") -> NoReturn:
    """not_implemented: PyTorch's own refusal.

    Raises:
        DerivativeNotImplemented: always.
    """
    raise DerivativeNotImplemented(f"PyTorch has no derivative of {name}{': ' if reason else ''}{reason}")


@manual
def not_implemented_list(name: str, reason: str = "") -> NoReturn:
    """not_implemented_list: the same for a list of tensors.

    Raises:
        DerivativeNotImplemented: always.
    """
    not_implemented(name, reason)


@manual
def wrap_opt_if(x: Tensor, condition: bool) -> Tensor | None:
    """wrap_opt_if: the tensor where the condition holds, else nothing is kept."""
    return x if condition else None


@manual
def reverse_list(items: Sequence[int]) -> list[int]:
    """reverse_list."""
    return list(reversed(items))


@manual
def fmap(items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """c10::fmap: the function of each item."""
    return [function(item) for item in items]


def primal(item: Tensor | Dual) -> Tensor:
    """An item of a list of tensors without its tangent."""
    return item.primal if isinstance(item, Dual) else item


@manual
def to_args_sizes(tensors: Sequence[Tensor | Dual]) -> list[list[int]]:
    """to_args_sizes."""
    return [list(primal(x).shape) for x in tensors]


@manual
def to_args_scalartypes(tensors: Sequence[Tensor | Dual]) -> list[torch.dtype]:
    """to_args_scalartypes."""
    return [primal(x).dtype for x in tensors]
