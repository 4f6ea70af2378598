"""A module of PyTorch as a function of tensors: of its inputs, and of its parameters."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence

import torch


def with_parameters(call: Callable, order: Sequence[str] | None = None) -> Callable:
    """A module as a function of its inputs and its parameters; anything else as it is.

    `order`: the names of the parameters that come after the inputs; by default all, in their order.

    Each call starts from the buffers that the module has, so that what a call writes to them (running statistics, a
    counter) reaches no other call, nor the module.
    """
    if not isinstance(call, torch.nn.Module):
        return call
    names, lock = [name for name, _ in call.named_parameters()] if order is None else order, threading.Lock()
    required = _required(call)

    def function(*args: torch.Tensor, **params: object) -> object:
        count = len(args) - len(names)
        parameters = {name: p.detach() for name, p in call.named_parameters() if name not in names}
        if count >= required:
            parameters, args = parameters | dict(zip(names, args[count:], strict=True)), args[:count]
        else:  # the spec is about the inputs of its forward only
            parameters = {name: p.detach() for name, p in call.named_parameters()}
        buffers = {name: _copied(buffer, args) for name, buffer in call.named_buffers()}
        with lock:  # PyTorch puts the parameters into the one module
            return torch.func.functional_call(call, parameters | buffers, args, params)

    return function


def parameters_are_inputs(call: torch.nn.Module, count: int) -> bool:
    """Return whether a module that is called with so many arguments gets its parameters by them."""
    return count - len([*call.named_parameters()]) >= _required(call)


def _required(call: torch.nn.Module) -> int:
    """The number of arguments that a module's forward needs."""
    own = [p for p in inspect.signature(call.forward).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    return sum(p.default is p.empty for p in own)


def _copied(buffer: torch.Tensor, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A buffer where the inputs are; in their format, too, unless it holds integers, as by `module.to(...)`."""
    like = next((x for x in inputs if x.is_floating_point() or x.is_complex()), buffer)
    dtype = buffer.dtype
    if buffer.is_floating_point():
        dtype = like.dtype.to_real()
    elif buffer.is_complex():
        dtype = like.dtype.to_complex()
    return buffer.detach().to(like.device, dtype, copy=True)
