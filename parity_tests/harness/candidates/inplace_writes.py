"""Detection of in-place writes, to tell those of the candidate's own code from those of PyTorch's formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

WRITTEN = "has been modified by an inplace operation"  # autograd's words for a saved value that was overwritten
_WRITING = ("__setitem__", "__set__", *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")))
_WRITING += tuple(f"__i{name}__" for name in ("pow", "and", "or", "xor", "lshift", "rshift"))


class InplaceWriteDetector(TorchFunctionMode):
    """A mode that notes calls from Python that write to a tensor, or that may, as operators outside of PyTorch do.

    PyTorch's own formulas, in C++, are not noted; what the `jvp` of a `torch.autograd.Function` calls is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self, func: Callable, types: Sequence[type], args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if _may_write(func, kwargs or {}):
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def _may_write(func: Callable, kwargs: Mapping[str, Any]) -> bool:
    if isinstance(func, torch._ops.OpOverload):
        return func.namespace != "aten" or func._schema.is_mutable
    if isinstance(func, torch._ops.OpOverloadPacket):
        return True  # the overload is unknown
    name = getattr(func, "__name__", "")
    if kwargs.get("out") is not None or name in _WRITING:
        return True
    return name.endswith("_") and not name.endswith("__") and name != "requires_grad_"
