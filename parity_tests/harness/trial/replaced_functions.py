"""Functions of PyTorch, NumPy, the clock and the harness that a candidate's file has put its own in the place of."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping

import torch

_LOOKED_AT = ("torch", "numpy", "time", "math", "random", "gc", "jax", "triton", "parity_tests.harness", "builtins")
_CLASSES = (torch.Tensor, torch.nn.Module, torch.autograd.Function)


def replaced_functions(candidate: Callable) -> list[str]:
    """The names, such as "torch.allclose", that now stand for something which the candidate's file defines.

    Only the attributes of modules, and those of PyTorch's most used classes, are looked at.
    """
    name, file = _origin(candidate)
    found = []
    for place, attributes in _places():
        for key, value in attributes.items():
            if _is_of(value, name, file) and not key.startswith("__"):
                found.append(f"{place}.{key}")
    return sorted(found)


def _origin(candidate: Callable) -> tuple[str, str]:
    """The module, and the file, in which a candidate is defined."""
    source = getattr(candidate, "func", candidate)
    owner = getattr(source, "__self__", None)  # the class of a bound `apply`
    named = source if hasattr(source, "__module__") and not isinstance(source, torch.nn.Module) else type(source)
    name = (owner if isinstance(owner, type) else named).__module__
    return name, getattr(sys.modules.get(name), "__file__", None) or ""


def _places() -> Iterator[tuple[str, Mapping[str, object]]]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name.startswith(_LOOKED_AT):
            yield name, dict(vars(module))
    for each in _CLASSES:
        yield f"{each.__module__}.{each.__qualname__}", dict(vars(each))


def _is_of(value: object, name: str, file: str) -> bool:
    """Whether a function, or a class or an object of one, is defined in this module, or in this file.

    Nothing is asked of the value itself: some, as `torch.ops`, make what they are asked for.
    """
    if issubclass(type(value), staticmethod | classmethod):  # isinstance would ask
        value = value.__func__  # type: ignore[attr-defined]
    if type(value) is types.FunctionType:
        return bool(file) and value.__code__.co_filename == file
    owner = value if issubclass(type(value), type) else type(value)
    return callable(value) and vars(owner).get("__module__") == name
