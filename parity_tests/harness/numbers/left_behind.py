"""Functions and modes that a candidate leaves changed, with which later code would compute."""

from __future__ import annotations

import builtins
import contextlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
import torch._compile
from torch.utils import _device
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

# Those of Python come first: whatever looks at the others is written with them.
_OWNERS: dict[str, Any] = {
    "builtins": builtins,
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.autograd": torch.autograd,
    "torch.autograd.Function": torch.autograd.Function,
    "torch.fft": torch.fft,
    "torch.func": torch.func,
    "torch.linalg": torch.linalg,
    "torch.nn.functional": torch.nn.functional,
    "torch.special": torch.special,
    "numpy": np,
    "numpy.linalg": np.linalg,
    "jax.numpy": jnp,
}
_OF_DEFAULT_DTYPE = "torch.Storage"  # which `torch.set_default_dtype` replaces, and puts back


@contextlib.contextmanager
def put_back() -> Iterator[list[str]]:
    """Put back, when the block is left, each function that was replaced, and leave each mode that was entered.

    A function that was added stays: modules of PyTorch and JAX are filled when they are first used.

    Yields:
        a list to which the names of the functions that were replaced are added when the block is left.
    """
    functions = {path: dict(vars(owner)) for path, owner in _OWNERS.items()}
    replaced: list[str] = []
    with _modes_left():
        try:
            yield replaced
        finally:
            for path, before in functions.items():
                replaced += _put_back_functions(path, before)


def _put_back_functions(path: str, before: Mapping[str, object]) -> Iterator[str]:
    """Put back the functions of one owner, and yield the names of those that were replaced or deleted."""
    owner, now = _OWNERS[path], vars(_OWNERS[path])
    if owner is not builtins and len(now) == len(before) and all(map(operator.is_, before.values(), now.values())):
        return
    for name, value in before.items():
        new, full = now.get(name), f"{path}.{name}"
        if new is value or not _is_function(value) or _is_uncompiled(new, value) or full == _OF_DEFAULT_DTYPE:
            continue
        setattr(owner, name, value)
        yield full
    if isinstance(owner, type):  # what is added to a class may replace what it inherits
        for name in [name for name in now if name not in before and hasattr(owner.__base__, name)]:
            delattr(owner, name)
            yield f"{path}.{name}"


def _is_function(value: object) -> bool:
    """Return whether it is a function, or, as a property is, made of some."""
    return callable(value) or hasattr(value, "__get__")


def _is_uncompiled(new: object, old: object) -> bool:
    """Return whether it is the same function, kept from being compiled, as `import torch._dynamo` replaces some."""
    code = getattr(new, "__code__", None)
    return getattr(new, "__wrapped__", None) is old and getattr(code, "co_filename", None) == torch._compile.__file__


@contextlib.contextmanager
def _modes_left() -> Iterator[None]:
    """Leave, at the end of the block, each mode of this thread that was entered; and enter each of functions again."""
    functions, operators = _function_modes(), _get_current_dispatch_mode_stack()
    # `torch.set_default_device` enters a mode, too, below all others, and refuses to leave it if there is another such.
    context, device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), _device.CURRENT_DEVICE
    try:
        yield
    finally:
        torch._GLOBAL_DEVICE_CONTEXT.device_context, _device.CURRENT_DEVICE = context, device
        for _ in _function_modes():
            torch._C._pop_torch_function_stack()
        for mode in functions:
            torch._C._push_on_torch_function_stack(mode)
        for mode in reversed(_get_current_dispatch_mode_stack()):
            if any(mode is earlier for earlier in operators):
                continue
            # The exit of its own class may do anything; this one also puts back what PyTorch notes of all modes.
            if getattr(mode, "old_dispatch_mode_flags", None):
                TorchDispatchMode.__exit__(mode, None, None, None)
            else:  # it was pushed, and has noted nothing
                torch._C._pop_torch_dispatch_stack(getattr(mode, "_mode_key", None))


def _function_modes() -> list[Any]:
    """Return the modes that handle functions of PyTorch, the innermost last."""
    return [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]
