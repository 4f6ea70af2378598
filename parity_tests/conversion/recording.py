"""How a function's calls of PyTorch are recorded while it is exported: lines, formats, and what is detached."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.known_numbers import KnownNumbers, writes

TORCH = str(Path(torch.__file__).parent)
# Whose frames are no lines of the function: this package, and those that call it.
OWN = tuple(str(Path(__file__).parents[1] / name) for name in ("conversion", "harness", "auditing"))
LINE = "line of the function"  # the key of a node's `meta["custom"]`
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_COMPLEX = {torch.complex32, torch.complex64, torch.complex128}
_NARROW = (_FLOATS | _COMPLEX) - {torch.float64, torch.complex128}
_TO_FLOAT = {torch.Tensor.float, torch.Tensor.double, torch.Tensor.half, torch.Tensor.bfloat16}
_DATA: Any = torch.Tensor.data  # a property, whose __get__ and __set__ are equal to themselves, but not the same


class Recording(TorchFunctionMode):
    """Notes the line of each call. What runs under `torch.no_grad()` is detached: the graph would not tell otherwise.

    Args:
        exact: whether all real numbers are float64, whatever the code says.
        known: the numbers that are known; None if none is to be computed.
    """

    def __init__(self, exact: bool, known: KnownNumbers | None = None) -> None:
        super().__init__()
        self.exact, self._known, self._recorded = exact, known, True
        self._buffers: Collection[int] = ()
        self._line = ""
        self.rounds = False  # whether the code casts its numbers to a narrower format than float64

    def begin(self, tensors: Any = (), buffers: Any = ()) -> None:
        """Begin a run of the function: some of the tensors may have known numbers, and some are a module's buffers."""
        self._recorded, self._buffers = True, {id(x) for x in buffers}
        if self._known is not None:
            self._known.begin(tensors)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # of torch.cond and its like, whose graphs are recorded when they run
            return func(*args, **kwargs)
        if func is torch._C._set_grad_enabled:
            self._recorded = args[0]
            with torch._C.DisableTorchFunction():  # or else the export makes a graph of its own of what follows
                return func(*args, **kwargs)
        name, line = getattr(func, "__name__", ""), line_of_frame(sys._getframe(1)) or self._line
        if name == "_unwrap_for_grad":
            raise CannotConvert(
                f"{line}: torch.export takes what torch.func.grad, vjp and jacrev differentiate by for a constant; "
                "write torch.autograd.grad(y, x, create_graph=True) after x.requires_grad_(), or convert the function "
                "itself and differentiate it in JAX"
            )
        if func == _DATA.__get__:
            func, args = torch.Tensor.detach, args[:1]
        detached = not self._recorded or torch.is_inference_mode_enabled()
        to_buffer = detached and writes(name) and bool(args) and id(args[0]) in self._buffers
        if (detached and writes(name) and not to_buffer) or func == _DATA.__set__:
            raise CannotConvert(
                f"{line}: the function writes to a tensor while no gradient is recorded, so that its derivative is "
                "not that of its values; write it without torch.no_grad() or .data"
            )
        if to_buffer:
            args = args[0], *tree_map(_detached, args[1:])
        if self.exact:
            func, args, kwargs = self._widened(func, args, kwargs, line)
        if isinstance(func, torch._ops.HigherOrderOperator):
            args = tree_map(lambda x: self._recorded_too(x) if isinstance(x, torch.nn.Module) else x, args)
        with fx_traceback.annotate({LINE: line}), self._at(line):
            found = func(*args, **kwargs) if self._known is None else self._known.called(func, name, args, kwargs)
            return tree_map(_detached, found) if detached and not to_buffer else found

    @contextlib.contextmanager
    def _at(self, line: str) -> Iterator[None]:
        """Run a block as called from a line, which the functions that torch.cond and its like call have, too."""
        before, self._line = self._line, line
        try:
            yield
        finally:
            self._line = before

    def _recorded_too(self, function: Callable) -> Callable:
        """A function that an operator calls, recorded as all else: a mode is off while it handles a call."""

        def recorded(*args: Any) -> Any:
            with self:
                return function(*args)

        return recorded

    def _widened(self, func: Any, args: Any, kwargs: Any, line: str) -> tuple[Any, Any, Any]:
        name = getattr(func, "__name__", "")
        if func in _TO_FLOAT:
            self.rounds |= func is not torch.Tensor.double
            return torch.Tensor.to, (args[0], args[0].dtype if args[0].is_complex() else torch.float64), {}
        if not (name == "view" and any(isinstance(x, torch.dtype) for x in (*args, *kwargs.values()))):
            self.rounds |= any(x in _NARROW for x in (*args, *kwargs.values()) if isinstance(x, torch.dtype))
            args, kwargs = (tree_map(lambda x: _wide(x, line), each) for each in (args, kwargs))
        return func, args, kwargs


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) else x


def _wide(x: Any, line: str) -> Any:
    """A tensor of real numbers, or their dtype, in float64; of complex ones in complex128; anything else as it is."""
    if isinstance(x, torch.Tensor):
        wide = _wide(x.dtype, line)
        return x if wide is x.dtype else x.to(wide)
    if not isinstance(x, torch.dtype) or not (x.is_floating_point or x.is_complex):
        return x
    if x not in _FLOATS | _COMPLEX:
        raise CannotConvert(
            f"{line}: the function uses {x}, whose rounding is no rounding error but what it computes; write the "
            "rounding out, with torch.round and a scale, or make the rounded numbers an input"
        )
    return torch.float64 if x in _FLOATS else torch.complex128


def line_of_frame(frame: Any) -> str:
    """The innermost line that is neither PyTorch's nor ours; if there is none, of one of PyTorch's modules."""
    of_module = ""
    while frame is not None and not frame.f_code.co_filename.startswith(OWN):
        name = frame.f_code.co_filename
        if not name.startswith((TORCH, "<eval_with_key>")):  # the latter is code that PyTorch has made
            return place(frame.f_code, frame.f_lineno)
        if not of_module and name.startswith(f"{TORCH}/nn/modules/") and not name.endswith("/module.py"):
            of_module = place(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return of_module


def place(code: CodeType, line: int) -> str:
    """Return a line of code as a traceback has it."""
    return f'File "{code.co_filename}", line {line}, in {code.co_name}'
