"""Launches of Triton kernels in its interpreter, as nodes of a traced program, and as functions of JAX.

A tracer of PyTorch does not see what a kernel writes. So while it traces, a launch is an operator, which takes the
tensors of the launch and returns them as the kernel leaves them. It runs the kernel on copies that lie as the tensors
did, and has no way to other memory.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import numpy as np
import torch
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.candidates.triton_memory import DTYPES, Memory, lifted
from parity_tests.harness.candidates.triton_programs import recorded
from parity_tests.harness.exceptions.errors import first_line

_NAME = "gradparity::triton_launch"
_ALIGNED = 64  # bytes, as PyTorch's storages are
_APART = 2**20  # bytes between storages, so that who leaves one does not get to another
_launches: weakref.WeakValueDictionary[int, Launch] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies in a storage."""

    storage: int
    nbytes: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class _Argument:
    """The tensor of this number in the arguments of a launch."""

    number: int


class Launch:
    """A launch of a kernel: what it was called with, and where its tensors lay.

    Args:
        interpreter: Triton's module.
        call: the call, a function of its arguments.
        args: those.
        kwargs: those with names.

    Attributes:
        tensors: those of its arguments.
        written: which of them it writes to.

    Raises:
        CannotConvert: a tensor is not one that the interpreter's memory models.
    """

    def __init__(self, interpreter: ModuleType, call: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        self._interpreter, self._call = interpreter, call
        leaves, self._tree = pytree.tree_flatten((args, kwargs))
        self.tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        numbers = itertools.count()
        self._leaves = [_Argument(next(numbers)) if isinstance(x, torch.Tensor) else x for x in leaves]
        for x in self.tensors:
            if x.device.type != "cpu" or x.dtype not in DTYPES:
                raise CannotConvert(f"a kernel takes a tensor of {x.dtype} on {x.device}")
        self._places = [_place(x) for x in self.tensors]
        self.written: frozenset[int] | None = None

    def results(self, contents: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors after the launch, from those before it."""
        views = self._views(contents)
        self._run(views, Memory(views))
        return [x.clone(memory_format=torch.contiguous_format) for x in views]

    def program(
        self, contents: Sequence[torch.Tensor], follow: Collection[int], unwritten: Collection[int]
    ) -> tuple[ClosedJaxpr, set[int]]:
        """The program from tensors to tensors, all floats being float64; and which of them have unwritten entries left.

        Args:
            contents: the tensors before the launch.
            follow: which of them follow from numbers; the others stay as they are.
            unwritten: which of them nobody has written.

        Raises:
            CannotConvert: there is none; or the launch computes something else this time.
        """
        left, results = set[int](), list[list[torch.Tensor]]()

        def every_result(*arrays: jax.Array) -> list[jax.Array]:
            views = self._views(contents)
            memory = Memory(views, [x if i in follow else None for i, x in enumerate(arrays)], unwritten)
            self._run(views, memory)
            results.append(views)
            left.update(i for i in range(len(views)) if memory.is_unwritten(i))
            return [memory.traced(i) for i in range(len(views))]

        arrays = [lifted(x.numpy()) for x in contents]
        closed, again = jax.make_jaxpr(every_result)(*arrays), jax.make_jaxpr(lambda *x: every_result(*x))(*arrays)
        results.append(self.results(contents))
        programs = [str(closed.jaxpr), *closed.consts], [str(again.jaxpr), *again.consts]
        first, *others = results
        if not _are_equal(*programs) or not all(_are_equal(first, other) for other in others):
            raise CannotConvert("a kernel computes something else each time")
        return closed, left

    def _views(self, contents: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors of these contents that lie as those of the launch did.

        Raises:
            CannotConvert: two of them have other numbers at the same place.
        """
        starts, end = dict[int, int](), 0
        for place in self._places:
            if place.storage not in starts:
                starts[place.storage] = end
                end += -(-place.nbytes // _ALIGNED) * _ALIGNED + _APART
        buffer, views = torch.empty(end, dtype=torch.uint8).untyped_storage(), []
        for place, x in zip(self._places, contents, strict=True):
            view = torch.empty(0, dtype=place.dtype)
            view.set_(buffer, starts[place.storage] // view.element_size() + place.offset, place.shape, place.stride)
            view.numpy()[...] = x.numpy()
            views.append(view)
        if not _are_equal(views, contents):
            raise CannotConvert("the tensors of a launch share memory in which they have other numbers")
        return views

    def _run(self, views: Sequence[torch.Tensor], memory: Memory) -> None:
        leaves = [views[x.number] if isinstance(x, _Argument) else x for x in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._tree)
        with recorded(self._interpreter, memory):
            try:
                self._call(*args, **kwargs)
            except self._interpreter.InterpreterError as error:
                raise CannotConvert(_reason(error)) from error
        written = frozenset(i for i in range(len(views)) if memory.is_written(i))
        if self.written is None:
            self.written = written
        if not written <= self.written:
            raise CannotConvert("to which tensors a kernel writes follows from numbers")


def _place(x: torch.Tensor) -> _Place:
    storage = x.untyped_storage()
    return _Place(storage.data_ptr(), storage.nbytes(), int(x.storage_offset()), tuple(x.shape), x.stride(), x.dtype)


def _are_equal(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether arrays, tensors or texts are the same."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(some, others, strict=True)]
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs)


def _reason(error: BaseException) -> str:
    """The error that made the interpreter give up, in words."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, CannotConvert):
        cause = cause.__cause__
    return first_line(error if cause is None else cause)


@functools.cache
def _operator() -> Any:
    """The operator of launches, (tensors, the launch's number) -> tensors."""

    def run(tensors: Sequence[torch.Tensor], number: int) -> list[torch.Tensor]:
        return _launches[number].results([x.detach() for x in tensors])

    torch.library.custom_op(_NAME, run, mutates_args=(), schema="(Tensor[] tensors, int number) -> Tensor[]")
    return torch.ops.gradparity.triton_launch.default


@contextmanager
def launches_as_operators() -> Iterator[list[Launch]]:
    """Let launches by this thread be operators; yield a list of them, which must live as long as what is traced.

    Raises:
        CannotConvert: one could not be, whether or not the code around it went on without it.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    launches, failures = list[Launch](), list[Exception]()
    if interpreter is None:
        yield launches
        return
    original, thread = interpreter.GridExecutor.__call__, threading.get_ident()

    def launched(executor: Any, *args: Any, **kwargs: Any) -> None:
        if threading.get_ident() != thread:
            return original(executor, *args, **kwargs)
        try:
            if executor.pre_run_hooks:
                raise CannotConvert("a kernel has hooks that run before it")
            launch = Launch(interpreter, functools.partial(original, executor), args, kwargs)
            launches.append(launch)
            _launch(launch)
        except Exception as error:
            failures.append(error)
            raise

    interpreter.GridExecutor.__call__ = launched
    try:
        yield launches
    except Exception:
        if not failures:
            raise
    finally:
        interpreter.GridExecutor.__call__ = original
    if failures:
        raise failures[0] if isinstance(failures[0], CannotConvert) else CannotConvert(first_line(failures[0]))


def _launch(launch: Launch) -> None:
    number = next(i for i in itertools.count() if i not in _launches)
    _launches[number], tensors = launch, launch.tensors
    launch.tensors = []
    with torch._C._AutoDispatchBelowAutograd():  # a kernel knows nothing of derivatives
        results = _operator()(tensors, number)
        for i in sorted(launch.written or ()):
            tensors[i].copy_(results[i])


def functions_of_launches(module: GraphModule, tensors: Sequence[torch.Tensor]) -> dict[Node, Callable]:
    """The functions of JAX for the launches in a program without writes, each from arrays to arrays.

    Args:
        module: the program.
        tensors: its arguments, by whose integers, and whose numbers' branches, its kernels run.

    Raises:
        CannotConvert: there is none of a launch.
    """
    if not _launches or not any(node.target is _operator() for node in module.graph.nodes):
        return {}
    recorder = _Recorder(module)
    recorder.run(*tensors)
    return recorder.functions


class _Recorder(Interpreter):
    """Runs a program, and records its launches."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.functions: dict[Node, Callable] = {}
        self._following, self._unwritten = set[Node](), set[Node]()
        self._left: dict[Node, set[int]] = {}  # of the results of launches, those that nobody has written

    def run_node(self, n: Node) -> Any:
        """The result of a node."""
        result = super().run_node(n)
        is_input = n.op == "placeholder" and result.is_floating_point()
        if is_input or self._following & {*n.all_input_nodes}:
            self._following.add(n)
        if n.target is _operator():
            (contents, number), _ = self.fetch_args_kwargs_from_env(n)
            self.functions[n], self._left[n] = self._function(n.args[0], contents, _launches[number])
        elif self._is_unwritten(n):
            self._unwritten.add(n)
        return result

    def _is_unwritten(self, n: Node) -> bool:
        """Return whether a node has what was in memory that nobody has written."""
        launch = n.args[0] if n.args and isinstance(n.args[0], Node) else None
        if launch in self._left:
            return n.args[1] in self._left[launch]
        makes = isinstance(n.target, torch._ops.OpOverload) and "empty" in n.target.name()
        return makes or bool(self._unwritten & {*n.all_input_nodes})

    def _function(self, nodes: Any, contents: Sequence[torch.Tensor], launch: Launch) -> tuple[Callable, set[int]]:
        floats = {i for i, x in enumerate(contents) if x.is_floating_point()}
        follow = floats | {i for i, node in enumerate(nodes) if node in self._following}
        unwritten = {i for i, node in enumerate(nodes) if node in self._unwritten} - floats
        closed, left = launch.program(contents, follow, unwritten)
        return jaxpr_as_fun(closed), left
