"""Whether a candidate calls the reference that it is to replace, in place of computing anything itself."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.solutions.guest.watching import Functions, Operators, plain_name
from parity_tests.harness.specs.from_torch import TorchReference
from parity_tests.harness.specs.spec import OpSpec


def reference_of(spec: OpSpec) -> Callable | None:
    """The function, module or operator of PyTorch that a specification was made from; None if from none.

    Of a `functools.partial`, and whatever else has its function as the attribute `func`, that function.
    """
    if not isinstance(spec.primal, TorchReference):
        return None
    return getattr(spec.primal.reference, "func", spec.primal.reference)


def replaced(spec: OpSpec, constants: Mapping[int, torch.Tensor | None], params: Mapping[str, Any]) -> Candidate | None:
    """Return the reference as a candidate, which takes a candidate's tensors; None if the spec was made from none.

    Args:
        spec: the operator.
        constants: the tensors that are not differentiated, by their positions.
        params: the parameters of the call.
    """
    if not isinstance(spec.primal, TorchReference):
        return None
    return Candidate(spec.primal.reference, "reference").bound(constants, params, None, spec.arranged)


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
            name = plain_name(packet.__name__)
            stack.enter_context(Functions(name, calls))
            stack.enter_context(Operators(name, calls))
        elif (code := _code_of(reference)) is not None:
            is_module = isinstance(reference, torch.nn.Module)
            words = f"class {type(reference).__name__}" if is_module else f"function {code.co_name}"
            stack.enter_context(_profiled(code, words, calls))
        yield calls


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
