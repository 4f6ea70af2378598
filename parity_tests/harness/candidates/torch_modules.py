"""A module of PyTorch as a function of tensors: of its inputs, and of its parameters; and its `eval()` mode."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence

import torch

from parity_tests.harness.candidates.captured_tensors import captured_modules


def with_parameters(call: Callable, order: Sequence[str] | None = None) -> Callable:
    """A module as a function of its inputs and its parameters; anything else as it is.

    `order`: the names of the parameters, or of buffers, that come after the inputs; by default all parameters, in their
    order.

    Each call starts from the buffers that the module has, so that what a call writes to them (running statistics, a
    counter) reaches no other call, nor the module. The function's `written` has the names of the buffers of real or
    complex numbers that calls wrote to.
    """
    if not isinstance(call, torch.nn.Module):
        return call
    names, lock = [name for name, _ in call.named_parameters()] if order is None else order, threading.Lock()
    required, written = _required(call), set[str]()

    def function(*args: torch.Tensor, **params: object) -> object:
        count = len(args) - len(names)
        parameters = {name: p.detach() for name, p in call.named_parameters() if name not in names}
        if count >= required:
            parameters, args = parameters | dict(zip(names, args[count:], strict=True)), args[:count]
        else:  # the spec is about the inputs of its forward only
            parameters = {name: p.detach() for name, p in call.named_parameters()}
        buffers = {name: _copied(buffer, args) for name, buffer in call.named_buffers() if name not in parameters}
        with lock:  # PyTorch puts the parameters into the one module
            result = torch.func.functional_call(call, state := parameters | buffers, args, params)
        if not torch.compiler.is_compiling():  # a tracer has no versions
            written.update(name for name, buffer in buffers.items() if _was_written(buffer, state[name]))
        return result

    function.written = written  # type: ignore[attr-defined]
    return function


@contextlib.contextmanager
def evaluated(source: Callable, call: Callable) -> Iterator[bool]:
    """Put the modules that a callable is, or reaches, into `eval()` for the block; yield False if there is no need.

    Every part is in its own mode again when the block is left. There is no need where all of them are in `eval()`
    already, and nothing to judge where one means another function there: it is one of PyTorch's with another mode
    (dropout, running statistics, ...), a call wrote to buffers, or its class has a `train` or `eval` of its own.

    Args:
        source: the author's callable.
        call: the function of tensors that `with_parameters` made of it. One whose module is elsewhere has a context
            manager `evaluating` of its own.
    """
    elsewhere = getattr(call, "evaluating", None)
    if elsewhere is not None:
        with elsewhere():
            yield True
        return
    modules = captured_modules(source)
    parts = dict.fromkeys(part for module in modules for part in module.modules())
    training = [part for part in parts if part.training]
    if not training or any(map(has_another_function, training)) or _keeps_statistics(modules, source, call):
        yield False
        return
    for part in training:
        part.training = False
    try:
        yield True
    finally:
        for part in training:
            part.training = True


def has_another_function(part: torch.nn.Module) -> bool:
    """Return whether a part of a module, without those in it, is meant to compute something else in `eval()`."""
    own = any(not (getattr(type(part), name).__module__ or "").startswith("torch.") for name in ("train", "eval"))
    if own:  # which may fold parameters into others: its own, not those that it is called with
        return True
    nn = torch.nn.modules
    if isinstance(part, nn.dropout._DropoutNd):
        return part.p > 0
    if isinstance(part, nn.batchnorm._NormBase):
        return part.running_mean is not None
    if isinstance(part, torch.nn.RReLU):
        return part.lower != part.upper
    return isinstance(part, torch.nn.MultiheadAttention | torch.nn.RNNBase) and part.dropout > 0


def _keeps_statistics(modules: Sequence[torch.nn.Module], source: Callable, call: Callable) -> bool:
    """Return whether calls wrote to buffers of real or complex numbers, as running statistics, which `eval()` reads.

    It is not known of the buffers of modules that a function reaches, and these are taken for statistics.
    """
    functions = (call, getattr(source, "call", None))
    known = [function.written for function in functions if hasattr(function, "written")]  # type: ignore[union-attr]
    if known:
        return any(known)
    return any(x.is_floating_point() or x.is_complex() for module in modules for x in module.buffers())


def _was_written(before: torch.Tensor, after: torch.Tensor | None) -> bool:
    """Return whether a call wrote to a copied buffer of real or complex numbers, or put another in its place."""
    if not (before.is_floating_point() or before.is_complex()):
        return False
    return after is not before or (not before.is_inference() and before._version > 0)


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
