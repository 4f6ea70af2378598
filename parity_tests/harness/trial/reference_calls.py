"""Whether a candidate calls the reference that it is to replace, in place of computing anything itself."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests.harness.specs.from_torch import TorchReference
from parity_tests.harness.specs.spec import OpSpec


def reference_of(spec: OpSpec) -> Callable | None:
    """The function, module or operator of PyTorch that a specification was made from; None if from none.

    Of a `functools.partial`, and whatever else has its function as the attribute `func`, that function.
    """
    if not isinstance(spec.primal, TorchReference):
        return None
    return getattr(spec.primal.reference, "func", spec.primal.reference)


def is_operator(reference: Callable) -> bool:
    """Whether a reference is an operator of ATen itself."""
    return isinstance(reference, torch._ops.OpOverload | torch._ops.OpOverloadPacket)


@contextlib.contextmanager
def watched(reference: Callable) -> Iterator[list[str]]:
    """Yield a list that has the words for each call of the reference once the block has ended: "class Model".

    An operator of ATen counts as called if any of its overloads is, the one that writes in place, too. A function or
    a class counts if its code runs, from whichever module the file of it was imported.
    """
    calls: list[str] = []
    with contextlib.ExitStack() as stack:
        if is_operator(reference):
            packet: Any = getattr(reference, "overloadpacket", reference)
            name = _plain(packet.__name__)
            stack.enter_context(_Functions(name, calls))
            stack.enter_context(_Operators(name, calls))
        elif (code := _code_of(reference)) is not None:
            is_module = isinstance(reference, torch.nn.Module)
            words = f"class {type(reference).__name__}" if is_module else f"function {code.co_name}"
            stack.enter_context(_profiled(code, words, calls))
        yield calls


class _Operators(TorchDispatchMode):
    """Notes each operator of a name that is called."""

    def __init__(self, name: str, calls: list[str]) -> None:
        super().__init__()
        self._name, self._calls = name, calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "aten" and _plain(func.overloadpacket.__name__) == self._name:
            self._calls.append(f"operator aten.{self._name}")
        return func(*args, **(kwargs or {}))


class _Functions(TorchFunctionMode):
    """Notes each function of a name that is called, such as one that PyTorch decomposes before it is an operator."""

    def __init__(self, name: str, calls: list[str]) -> None:
        super().__init__()
        self._name, self._calls = name, calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = getattr(func, "overloadpacket", func)
        if _plain(getattr(packet, "__name__", "")) == self._name:
            self._calls.append(f"operator aten.{self._name}")
        return func(*args, **(kwargs or {}))


def _plain(name: str) -> str:
    return name.strip("_")


def _code_of(reference: Callable) -> CodeType | None:
    function = type(reference).forward if isinstance(reference, torch.nn.Module) else reference
    return getattr(function, "__code__", None)


@contextlib.contextmanager
def _profiled(code: CodeType, words: str, calls: list[str]) -> Iterator[None]:
    """Note each call of this code in this thread."""
    before, place = sys.getprofile(), _place(code)

    def noted(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name == code.co_name and _place(frame.f_code) == place:
            calls.append(words)

    sys.setprofile(noted)
    try:
        yield
    finally:
        sys.setprofile(before)


def _place(code: CodeType) -> tuple[str, int]:
    """Where code was written, the same for each time that its file was run."""
    return os.path.realpath(code.co_filename), code.co_firstlineno
