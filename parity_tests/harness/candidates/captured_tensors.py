"""Tensors and modules that a callable uses without being given them; of tensors, those that require a gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType

import torch
from torch.autograd.function import Function

_LIBRARIES = ("torch", "jax", "numpy", "builtins", "triton", "functools")
_METHODS = ("forward", "setup_context", "backward", "jvp", "vmap")
_MANY = 1000  # items of a container, of which no more are looked at


def captured_tensors(call: Callable) -> dict[str, torch.Tensor]:
    """Return the leaves that require a gradient and that a callable reaches otherwise than by its arguments, by name.

    In cells of closures, defaults, globals that its code names, arguments of a `functools.partial`, attributes of the
    object that it is a method of, parameters and buffers of modules among these; and so on in the functions and the
    subclasses of `torch.autograd.Function` that it reaches so, unless they are those of a library.
    """
    reached = _all_reached(call)
    return dict(_numbered((name, x) for name, x in reached if isinstance(x, torch.Tensor) and _is_judged(x)))


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a module, by name."""
    return dict([*module.named_parameters(), *module.named_buffers()])


def captured_modules(call: Callable) -> list[torch.nn.Module]:
    """Return the modules that a callable is, or reaches by the same ways, without their submodules."""
    return [x for _, x in _all_reached(call) if isinstance(x, torch.nn.Module)]


def _all_reached(call: Callable) -> Iterator[tuple[str, object]]:
    """Yield what a callable reaches, and itself, each object once, by names."""
    seen: dict[int, object] = {}  # the objects themselves, too, so that no number is used twice
    left: list[tuple[str, object]] = [("", call)]
    while left:
        name, item = left.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        yield name, item
        if not isinstance(item, torch.Tensor):
            left += reversed([*_reached(name, item)])


def _is_judged(x: torch.Tensor) -> bool:
    """True of a dense leaf of PyTorch's own types that requires a gradient."""
    plain = type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout is torch.strided and not x.is_nested
    return plain and x.requires_grad and x.is_leaf


def _numbered(items) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors by names that are all different."""
    counts: dict[str, int] = {}
    for name, tensor in items:
        counts[name] = counts.get(name, 0) + 1
        yield name if counts[name] == 1 else f"{name} ({counts[name]})", tensor


def _reached(name: str, item: object) -> Iterator[tuple[str, object]]:
    """Yield the objects that an object refers to, each with a name."""
    if isinstance(item, torch.nn.Module):
        yield from ((_joined(name, of_module), x) for of_module, x in tensors_of(item).items())
    elif isinstance(item, functools.partial):
        yield from ((name, part) for part in (item.func, *item.args))
        yield from item.keywords.items()
    elif isinstance(item, MethodType):
        yield name, item.__func__
        yield name, item.__self__
    elif isinstance(item, BuiltinFunctionType):
        if isinstance(item.__self__, type):  # what `Function.apply` is from PyTorch 2.14 on
            yield name, item.__self__
    elif isinstance(item, FunctionType):
        if not _of_a_library(item):
            yield from _of_function(item)
    elif isinstance(item, type):
        if issubclass(item, Function) and not _of_a_library(item):
            yield from ((name, getattr(item, method)) for method in _METHODS)
            yield from ((_joined(name, key), value) for key, value in vars(item).items() if _holds_tensors(value))
    elif isinstance(item, Mapping):
        yield from ((_joined(name, str(key)), value) for key, value in [*item.items()][:_MANY])
    elif isinstance(item, list | tuple):
        yield from ((f"{name}[{i}]", value) for i, value in enumerate(item[:_MANY]))
    elif hasattr(item, "__dict__") and not _of_a_library(type(item)):
        yield from ((_joined(name, key), value) for key, value in vars(item).items() if _holds_tensors(value))
        if callable(item):
            yield name, type(item).__call__


def _of_function(function: FunctionType) -> Iterator[tuple[str, object]]:
    for cell_name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield cell_name, cell.cell_contents
        except ValueError:  # it is filled later
            continue
    yield from (("a default", value) for value in function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()
    for global_name in _names(function.__code__):
        if global_name in function.__globals__:
            value = function.__globals__[global_name]
            if _holds_tensors(value) or isinstance(value, FunctionType | BuiltinFunctionType | type | MethodType):
                yield global_name, value
    if hasattr(function, "__wrapped__"):
        yield "", function.__wrapped__


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function's code, and in the functions that are made in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _holds_tensors(value: object) -> bool:
    return isinstance(value, torch.Tensor | torch.nn.Module | functools.partial | list | tuple | dict)


def _joined(name: str, attribute: str) -> str:
    return f"{name}.{attribute}" if name else attribute


def _of_a_library(item: object) -> bool:
    return str(getattr(item, "__module__", "")).partition(".")[0] in _LIBRARIES
