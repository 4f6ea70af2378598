"""Inputs that functions read from their closures when they run again in the backward.

`torch.utils.checkpoint` runs a function of its caller's again, and so does the adjoint of a differential equation. What
that function closes over is the caller's, who leaves it as it is until the backward, as the documentation of both says:
no Function could save it. A closure that a Function makes of its own arguments is no such function.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests.harness.candidates.torch_graphs import Graph

_METHODS = ("forward", "setup_context", "backward")


class _Closures(TorchDispatchMode):
    """Notes which functions with closures run, and which tensors their closures hold, whenever PyTorch computes."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[CodeType, list[torch.Tensor]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_freevars:
                variables = frame.f_locals
                values = (variables.get(name) for name in code.co_freevars)
                self.held.setdefault(code, []).extend(x for x in values if isinstance(x, torch.Tensor))
            frame = frame.f_back
        return func(*args, **(kwargs or {}))


def inputs_of_functions_run_again(record: Callable[[], Graph], cotangents: Sequence[torch.Tensor]) -> set[int]:
    """Return the numbers of the inputs that a function of the forward has in its closure and runs again with.

    Args:
        record: runs the forward.
        cotangents: those of the backward.
    """
    forward, backward = _Closures(), _Closures()
    with forward:
        graph = record()
    with backward:
        graph.vjp(cotangents)
    again = [held for code, held in backward.held.items() if code in forward.held and not _is_made_by_a_function(code)]
    return {i for i, x in enumerate(graph.inputs) if any(x is y for held in again for y in held)}


def _is_made_by_a_function(code: CodeType) -> bool:
    """True if the code of a function stands in a method of a `torch.autograd.Function`."""
    methods = (vars(cls).get(name) for cls in _subclasses(torch.autograd.Function) for name in _METHODS)
    return any(code in _nested(inner) for method in methods if (inner := _code_of(method)) is not None)


def _subclasses(cls: type) -> Iterator[type]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _code_of(method: object) -> CodeType | None:
    function = getattr(method, "__func__", method)
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested(constant)
