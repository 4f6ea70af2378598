"""Whether a program of PyTorch reads its numbers: what follows from them in Python is in no trace of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parity_tests.conversion.cannot_convert import CannotConvert

_OF_NUMBERS = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
_ONE_NUMBER = torch.ops.aten._local_scalar_dense.default  # which the tracer keeps, or refuses
_METHODS = ("numpy", "tolist")
_IN_PYTHON = {torch.Tensor.__array__.__code__, torch.Tensor.__repr__.__code__, torch.Tensor.__format__.__code__}
_OF_PYTORCH, _OF_THE_HARNESS = str(Path(torch.__file__).parent), str(Path(__file__).parents[1])


class _Operators(TorchDispatchMode):
    """Refuses the operators whose results have a shape, or are a value of Python, that follows from numbers.

    Not from integers that are inputs: a proof is of the integers of its samples. A refusal is noted, and so is an
    operator that raises, as of a matrix that has no factor, or of a number that the tracer does not give: who catches
    it has learnt something of the numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: str | None = None
        self._from_numbers: dict[int, torch.Tensor] = {}  # integers and masks, which are kept as long as their numbers

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        from_numbers = any(map(self.has_numbers, given))
        of_numbers = from_numbers and any(tag in func.tags for tag in _OF_NUMBERS)
        if of_numbers and func is not _ONE_NUMBER and not _is_of_integers(func, args):
            self.found = self.found or f"the shape or the value of {func.name()} follows from numbers"
            raise CannotConvert(self.found)
        try:
            results = func(*args, **(kwargs or {}))
        except Exception as error:
            self.found = self.found or f"{func.name()} raises {type(error).__name__}, which the program catches"
            raise
        made = [y for y in tree_leaves(results) if isinstance(y, torch.Tensor) and not y.is_floating_point()]
        self._from_numbers |= {id(y): y for y in made} if from_numbers else {}
        return results

    def has_numbers(self, x: torch.Tensor) -> bool:
        """Whether a tensor is of real or complex numbers, or of integers or a mask that follow from such."""
        return x.is_floating_point() or x.is_complex() or id(x) in self._from_numbers


def _is_of_integers(func: Any, args: Sequence[Any]) -> bool:
    """Whether places are given by numbers and not by a mask, so that the shape is known."""
    indices = args[1] if func.overloadpacket is torch.ops.aten.index else ()
    given = [x for x in indices if isinstance(x, torch.Tensor)]
    return bool(given) and all(x.dtype not in (torch.bool, torch.uint8) for x in given)


class _Calls:
    """Notes the methods that give numbers to the candidate's Python: as a profiler, which sees them.

    Not to PyTorch's, nor to that of the harness and of Triton's interpreter, by which kernels are launched.

    A mode for functions would not: while gradients are computed there is none.
    """

    def __init__(self, operators: _Operators) -> None:
        self.found: str | None = None
        self._has_numbers = operators.has_numbers
        triton = getattr(sys.modules.get("triton"), "__file__", None)
        self._others = (_OF_PYTORCH, _OF_THE_HARNESS, *([str(Path(triton).parent)] if triton else []))

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        by_python = event == "call" and frame.f_code in _IN_PYTHON
        in_c = event == "c_call" and called.__name__ in _METHODS and isinstance(called.__self__, torch.Tensor)
        caller = frame.f_back if by_python else frame
        if not (by_python or in_c) or caller is None or caller.f_code.co_filename.startswith(self._others):
            return
        if self._has_numbers(frame.f_locals["self"] if by_python else called.__self__):
            self.found = self.found or (frame.f_code.co_name if by_python else called.__name__)


@contextlib.contextmanager
def none_called(functions: Sequence[Callable[..., Any]], why: str) -> Iterator[None]:
    """Raise CannotConvert if one of these functions of Python is called: also if it raises, and somebody catches it."""
    codes: set[CodeType] = {f.__code__ for f in functions if isinstance(f, FunctionType)}
    before, called = sys.getprofile(), False

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal called
        called = called or (event == "call" and frame.f_code in codes)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
    if called:
        raise CannotConvert(why)


@contextlib.contextmanager
def no_numbers_read() -> Iterator[None]:
    """Raise CannotConvert where Python gets numbers of tensors, or a shape follows from them."""
    before, operators = sys.getprofile(), _Operators()
    calls = _Calls(operators)
    sys.setprofile(calls)
    try:
        with operators:
            yield
    finally:
        sys.setprofile(before)
    if calls.found is not None:
        raise CannotConvert(f"{calls.found}() gives its numbers to Python, and what follows from them is in no program")
    if operators.found is not None:
        raise CannotConvert(operators.found)
