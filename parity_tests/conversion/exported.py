"""A function of PyTorch as the graph of ATen's operators that `torch.export` makes of it, for arrays of some shapes.

By default the graph is that of an exact function: all its real numbers are float64, whatever the code says. `x.float()`
and `.to(torch.bfloat16)` say where a program rounds, which is the business of whoever is judged, not of the oracle.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import operator
import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import traceback as fx_traceback

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.recording import OWN, TORCH, Recording, place

_LOCK = threading.Lock()  # the default dtype is that of the process


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
    recording: Recording | None = None,
    written: Collection[int] = (),
) -> Exported:
    """Return the graph of a function of tensors at inputs of these shapes and dtypes.

    Args:
        function: takes the inputs and returns a sequence of tensors.
        inputs: their values have no part in it.
        kept: whether the operator of a name such as "aten::std.correction" stays; others are decomposed if PyTorch
            has a decomposition. All that remain neither write to memory nor, on a view, have an effect elsewhere.
        recording: how it is recorded; by default as an exact function.
        written: the positions of the inputs that it may write to, whose last values are outputs of the graph then.

    Raises:
        CannotConvert: `torch.export` cannot read the function, or it writes to its inputs.
    """
    recording = recording or Recording(exact=True)
    module = _Traced(function, recording, written)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_LOCK)
        for context in (_quiet(), _one_precision_of_cudnn(), torch.random.fork_rng(devices=[])):
            stack.enter_context(context)
        if recording.exact:
            stack.enter_context(default_dtype(torch.float64))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(fx_traceback.preserve_node_meta())
        try:
            program = torch.export.export(module, tuple(inputs), strict=False)
            if not _is_plain(program, kept):
                for node in program.graph.nodes:  # with which PyTorch marks its own inputs, each time otherwise
                    node.meta.get("custom", {}).pop("_torchdynamo_disable_method", None)
                program = program.run_decompositions(decompositions(kept))
        except CannotConvert:
            raise
        except Exception as error:
            raise CannotConvert(_why_not(error)) from error
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    allowed = {names[i] for i in written}
    for output in program.graph_signature.output_specs:
        if output.kind is OutputKind.USER_INPUT_MUTATION and output.target not in allowed:
            raise CannotConvert("the function writes to one of its inputs; let it clone that first")
    return Exported(program, recording.rounds)


def _is_plain(program: ExportedProgram, kept: Callable[[str], bool]) -> bool:
    """Return whether all operators of a graph stay, each is used, and none writes to memory.

    There is nothing to decompose then, for which PyTorch prepares all of its operators, a fifth of a second each time.
    """
    for node in program.graph.nodes:
        if node.op in ("placeholder", "output") or node.target is operator.getitem:
            continue
        overload = node.target
        stays = isinstance(overload, torch._ops.OpOverload) and kept(overload.name())
        if not stays or overload._schema.is_mutable or not node.users:
            return False
    return True


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Run a function for the block as an exact one: all its real numbers are float64, whatever the code says."""
    with _LOCK, without_complaints(), default_dtype(torch.float64), Recording(exact=True):
        yield


@contextlib.contextmanager
def quiet_run() -> Iterator[None]:
    """Run a function for the block as the graph does, in float64, and without what PyTorch says of what it refuses.

    PyTorch's random numbers are left where they were.
    """
    with (
        _LOCK,
        without_complaints(),
        torch.random.fork_rng(devices=[]),
        default_dtype(torch.float64),
        torch.no_grad(),
        Recording(exact=True),
    ):
        yield


@contextlib.contextmanager
def without_complaints() -> Iterator[None]:
    """Run a function for the block without warnings, and without what is logged of a run that has no numbers."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings(), without_trace():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


@contextlib.contextmanager
def without_trace() -> Iterator[None]:
    """Run a block without the records that PyTorch traces for a file, which pytest would print with a failing test.

    If TORCH_TRACE names the file, they are left alone.
    """
    logger = logging.getLogger("torch.__trace")

    def drop(record: logging.LogRecord) -> bool:
        return False

    if "TORCH_TRACE" not in os.environ:
        logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


class _Traced(torch.nn.Module):
    """The function as a module, whose parameters the export does not see: they are constants, or inputs."""

    def __init__(
        self, function: Callable[..., Sequence[torch.Tensor]], recording: Recording, written: Collection[int]
    ) -> None:
        super().__init__()
        self._called = function, recording, written

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        function, recording, written = self._called
        recording.begin(inputs, [inputs[i] for i in written])
        with recording:
            return tuple(function(*inputs))


def _why_not(error: BaseException) -> str:
    """Return why the function cannot be exported, with the line, and what to write instead."""
    line, traceback = "", error.__traceback__
    while traceback is not None:
        if _is_of_the_function(traceback):
            line = f"{place(traceback.tb_frame.f_code, traceback.tb_lineno)}: "
        traceback = traceback.tb_next
    lines = str(error).strip().splitlines()
    text, remedy = (lines[0] if lines else ""), ""
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        remedy = (
            "; its program must not depend on the numbers in its tensors: write torch.where for `if`, a "
            "mask for a selection, and a fixed number of steps for `while`"
        )
    return f"{line}torch.export cannot read the function: {type(error).__name__}: {text}{remedy}"


def _is_of_the_function(traceback: TracebackType) -> bool:
    name = traceback.tb_frame.f_code.co_filename
    return not name.startswith((TORCH, *OWN, "<"))


@functools.cache
def decompositions(kept: Callable[[str], bool]) -> dict[Any, Callable]:
    """Return PyTorch's own decompositions, but those of operators that are kept."""
    table: Any = torch.export.default_decompositions()
    for each in list(table):
        if kept(each.name()):
            table.pop(each)
    return table


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Run a block with another default dtype of PyTorch."""
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
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), without_trace():
        warnings.simplefilter("ignore")
        logger.disabled = True
        try:
            yield
        finally:
            logger.disabled = before
