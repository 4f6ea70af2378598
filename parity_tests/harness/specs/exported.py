"""A function of PyTorch as the graph of ATen's operators that `torch.export` makes of it, for arrays of some shapes.

The graph is that of an exact function: all its real numbers are float64, whatever the code says. `x.float()` and
`.to(torch.bfloat16)` say where a program rounds, which is the business of whoever is judged, not of the oracle.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from parity_tests.harness.exceptions.conversion import CannotConvert

_TORCH = str(Path(torch.__file__).parent)
_LOCK = threading.Lock()  # the default dtype is that of the process
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_COMPLEX = {torch.complex32, torch.complex64, torch.complex128}
_NARROW = (_FLOATS | _COMPLEX) - {torch.float64, torch.complex128}
_TO_FLOAT = {torch.Tensor.float, torch.Tensor.double, torch.Tensor.half, torch.Tensor.bfloat16}
_DATA: Any = torch.Tensor.data  # a property, whose __get__ and __set__ are equal to themselves, but not the same
LINE = "line of the reference"  # the key of a node's `meta["custom"]`


@dataclass(frozen=True)
class Exported:
    """A function of PyTorch as a graph.

    Attributes:
        program: the graph.
        rounds: whether the code says somewhere that it computes in a narrower format than that of its inputs, float64.
    """

    program: ExportedProgram
    rounds: bool


def exported(
    function: Callable[..., Sequence[torch.Tensor]],
    inputs: Sequence[torch.Tensor],
    kept: Callable[[str], bool],
) -> Exported:
    """Return the graph of a function of tensors at inputs of these shapes and dtypes.

    Args:
        function: takes the inputs and returns a sequence of tensors.
        inputs: their values have no part in it.
        kept: whether the operator of a name such as "aten::std.correction" stays; others are decomposed if PyTorch
            has a decomposition. All that remain neither write to memory nor, on a view, have an effect elsewhere.

    Raises:
        CannotConvert: `torch.export` cannot read the function, or it writes to its inputs.
    """
    mode = _Exact()
    module = _Traced(function, mode)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_LOCK)
        for context in (_quiet(), _default_dtype(torch.float64), _one_precision_of_cudnn()):
            stack.enter_context(context)
        stack.enter_context(torch.enable_grad())
        stack.enter_context(fx_traceback.preserve_node_meta())
        try:
            program = torch.export.export(module, tuple(inputs), strict=False)
            program = program.run_decompositions(decompositions(kept))
        except CannotConvert:
            raise
        except Exception as error:
            raise CannotConvert(_why_not(error)) from error
    for output in program.graph_signature.output_specs:
        if output.kind is OutputKind.USER_INPUT_MUTATION:
            raise CannotConvert("the reference writes to one of its inputs; let it clone that first")
    return Exported(program, mode.rounds)


@contextlib.contextmanager
def quiet_run() -> Iterator[None]:
    """Run a function for the block as the graph does, in float64, and without what PyTorch says of what it refuses.

    PyTorch's random numbers are left where they were.
    """
    with (
        _LOCK,
        without_complaints(),
        torch.random.fork_rng(devices=[]),
        _default_dtype(torch.float64),
        torch.no_grad(),
        _Exact(),
    ):
        yield


@contextlib.contextmanager
def without_complaints() -> Iterator[None]:
    """Run a function for the block without warnings, and without what is logged of a run that has no numbers."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


class _Traced(torch.nn.Module):
    """The function as a module, whose parameters the export does not see: they are constants, or inputs."""

    def __init__(self, function: Callable[..., Sequence[torch.Tensor]], mode: _Exact) -> None:
        super().__init__()
        self._called = function, mode

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        function, mode = self._called
        with mode:
            return tuple(function(*inputs))


class _Exact(TorchFunctionMode):
    """Computes real numbers in float64 only, and notes the line of each call.

    What runs under `torch.no_grad()` is detached: the graph would not tell otherwise.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recorded = True
        self.rounds = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch._C._set_grad_enabled:
            self._recorded = args[0]
            with torch._C.DisableTorchFunction():  # or else the export makes a graph of its own of what follows
                return func(*args, **kwargs)
        name, line = getattr(func, "__name__", ""), _line(sys._getframe(1))
        if func == _DATA.__get__:
            func, args = torch.Tensor.detach, args[:1]
        detached = not self._recorded or torch.is_inference_mode_enabled()
        if (detached and _writes(name)) or func == _DATA.__set__:
            raise CannotConvert(
                f"{line}: the reference writes to a tensor while no gradient is recorded, so that its derivative is "
                "not that of its values; write it without torch.no_grad() or .data"
            )
        if func in _TO_FLOAT:
            self.rounds |= func is not torch.Tensor.double
            func, kwargs = torch.Tensor.to, {}
            args = (args[0], args[0].dtype if args[0].is_complex() else torch.float64)
        elif not (name == "view" and any(isinstance(x, torch.dtype) for x in (*args, *kwargs.values()))):
            self.rounds |= any(x in _NARROW for x in (*args, *kwargs.values()) if isinstance(x, torch.dtype))
            args, kwargs = (tree_map(lambda x: _widened(x, line), each) for each in (args, kwargs))
        with fx_traceback.annotate({LINE: line}):
            found = func(*args, **kwargs)
            return tree_map(_detached, found) if detached else found


def _writes(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) else x


def _widened(x: Any, line: str) -> Any:
    """A tensor of real numbers, or their dtype, in float64; of complex ones in complex128; anything else as it is."""
    if isinstance(x, torch.Tensor):
        wide = _widened(x.dtype, line)
        return x if wide is x.dtype else x.to(wide)
    if not isinstance(x, torch.dtype) or not (x.is_floating_point or x.is_complex):
        return x
    if x not in _FLOATS | _COMPLEX:
        raise CannotConvert(
            f"{line}: the reference uses {x}, whose rounding is no rounding error but what it computes; write the "
            "rounding out, with torch.round and a scale, or make the rounded numbers an input"
        )
    return torch.float64 if x in _FLOATS else torch.complex128


def _line(frame: Any) -> str:
    """The innermost line that is not PyTorch's."""
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    return "" if frame is None else _place(frame.f_code, frame.f_lineno)


def _place(code: CodeType, line: int) -> str:
    return f'File "{code.co_filename}", line {line}, in {code.co_name}'


def _why_not(error: BaseException) -> str:
    """Return why the reference cannot be exported, with the line, and what to write instead."""
    line, traceback = "", error.__traceback__
    while traceback is not None:
        if _is_of_the_reference(traceback):
            line = f"{_place(traceback.tb_frame.f_code, traceback.tb_lineno)}: "
        traceback = traceback.tb_next
    lines = str(error).strip().splitlines()
    text, remedy = (lines[0] if lines else ""), ""
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        remedy = (
            "; its program must not depend on the numbers in its tensors: write torch.where for `if`, a "
            "mask for a selection, and a fixed number of steps for `while`"
        )
    return f"{line}torch.export cannot read the reference: {type(error).__name__}: {text}{remedy}"


def _is_of_the_reference(traceback: TracebackType) -> bool:
    name = traceback.tb_frame.f_code.co_filename
    return not name.startswith((_TORCH, "<")) and Path(name).parent != Path(__file__).parent


@functools.cache
def decompositions(kept: Callable[[str], bool]) -> dict[Any, Callable]:
    """Return PyTorch's own decompositions, but those of operators that are kept."""
    table: Any = torch.export.default_decompositions()
    for operator in list(table):
        if kept(operator.name()):
            table.pop(operator)
    return table


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _one_precision_of_cudnn() -> Iterator[None]:
    """Set the precisions of cuDNN so that `torch.export` can read them by the one name that they once had.

    Nothing is computed meanwhile. PyTorch raises a RuntimeError where the old setting and the new ones disagree.
    """
    cudnn: Any = torch.backends.cudnn
    settings = cudnn.conv, cudnn.rnn
    before = [each.fp32_precision for each in settings]
    try:
        for precision in ("tf32", "ieee", "none"):
            for each in settings:
                each.fp32_precision = precision
            with contextlib.suppress(RuntimeError):
                cudnn.allow_tf32  # noqa: B018
                break
        yield
    finally:
        for each, precision in zip(settings, before, strict=True):
            each.fp32_precision = precision


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch's exporter itself warns of, logs and prints: where it refuses, `CannotConvert` says why."""
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    before = logger.disabled
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logger.disabled = True
        try:
            yield
        finally:
            logger.disabled = before
