"""Right code that computes in float32 and differs in what it rounds, and in which order it adds: modes of dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_PRODUCTS = {_aten.mm.default, _aten.bmm.default}
_SUMS = {_aten.sum.dim_IntList, _aten.mean.dim}


class OperandsRounded(TorchDispatchMode):
    """The operands of products are rounded to a format and added up in float32, as tensor cores do."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Run an operation of ATen."""
        if func in _PRODUCTS:
            args = [x.to(self.dtype).to(x.dtype) for x in args]
        return func(*args, **(kwargs or {}))


class SumsSplit(TorchDispatchMode):
    """Sums and products are added up in two halves, as with split-k."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Run an operation of ATen."""
        kwargs = kwargs or {}
        if func in _PRODUCTS and (k := args[0].shape[-1]) > 1:
            (a, b), half = args, k // 2
            return func(a[..., half:], b[..., half:, :]) + func(a[..., :half], b[..., :half, :])
        if func in _SUMS and len(args[1]) == 1 and "dtype" not in kwargs:
            x, (axis,), *keepdim = args
            k = x.shape[axis]
            first, last = x.narrow(axis, 0, k // 2), x.narrow(axis, k // 2, k - k // 2)
            total = _aten.sum.dim_IntList(last, [axis], *keepdim) + _aten.sum.dim_IntList(first, [axis], *keepdim)
            return total / k if func is _aten.mean.dim else total
        return func(*args, **kwargs)
