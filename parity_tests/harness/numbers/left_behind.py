"""What a candidate leaves behind in PyTorch, and who comes after it would compute with: functions and modes."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator

import torch
from torch.utils import _python_dispatch

# Where kernels take their functions from.
_PLACES = (torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.special, torch.fft, torch.autograd)
_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    property,
)
_STACKS: tuple[tuple[Callable[[], int], Callable[[], object]], ...] = (
    (torch._C._len_torch_function_stack, torch._C._pop_torch_function_stack),
    (torch._C._len_torch_dispatch_stack, _python_dispatch._pop_mode),
)


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    """Put back, when the block is left, each function that was replaced, and leave each mode that was entered.

    A function that was added stays: PyTorch fills some of its modules when they are first used.
    """
    before = [dict(vars(place)) for place in _PLACES]
    lengths = [length() for length, _ in _STACKS]
    try:
        yield
    finally:
        for (length, pop), entered in zip(_STACKS, lengths, strict=True):
            while length() > entered:
                pop()
        for place, attributes in zip(_PLACES, before, strict=True):
            now = vars(place)
            for name, value in attributes.items():
                if now.get(name) is not value and isinstance(value, _FUNCTIONS):
                    setattr(place, name, value)
        for name in vars(torch.Tensor).keys() - before[_PLACES.index(torch.Tensor)].keys():
            if hasattr(torch._C.TensorBase, name):  # a method that was in the place of an inherited one
                delattr(torch.Tensor, name)
