"""The calls of ATen's operators that a function makes, with their tensors as they were then."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._C import _autograd
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests.auditing.functions import Applied, applied_in, before_each
from parity_tests.auditing.modules import Modules
from parity_tests.auditing.structures import leaves, mapped
from parity_tests.conversion.graph import named_arguments
from parity_tests.conversion.recording import line_of_frame


class Overwritten(Exception):
    """Raised where the numbers of a call are lost, since something wrote over them that is no operator."""


def memory_of(x: Tensor) -> int:
    """Return a number that tensors share if they share their memory; one that has none has a number of its own."""
    try:
        return x.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # it is sparse, or the wrapper of a transform
        return id(x)


@dataclass(eq=False)
class Held:
    """A tensor in a call: its numbers are those that it had then, whatever is written to it afterwards.

    Attributes:
        tensor: the tensor itself.
        is_result: whether it is a result of the call.
        is_made: whether a call has returned this very tensor, now or before.
        maker: the node of autograd that made it, itself if it is a leaf; None if it has no gradient.
        which: of the maker's results it was.
        memory: a number that tensors share if they share their memory.
        place: what tensors share that are the same numbers in memory.
    """

    tensor: Tensor
    is_result: bool = False
    is_made: bool = False
    maker: Any = field(init=False, default=None)
    which: int = field(init=False, default=0)
    memory: int = field(init=False)
    place: tuple = field(init=False)
    _version: int | None = field(init=False, default=None)
    _copy: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Note what may change."""
        x = self.tensor
        if x.requires_grad:
            self.maker, self.which = (x, 0) if x.grad_fn is None else (x.grad_fn, x.output_nr)
        self.memory, self.place = memory_of(x), (id(x),)
        if self.memory != id(x):
            self.place = self.memory, x.storage_offset(), x.shape, x.stride(), x.dtype
        if not self.is_result and not x.is_inference():  # the counter of a result that is a view is not its own yet
            self._version = x._version

    def save(self) -> None:
        """Save its numbers, before they are written over."""
        if self._copy is None:
            self._copy = self.tensor.detach().clone()

    def before(self) -> Tensor:
        """Return the tensor with the numbers that it had.

        Raises:
            Overwritten: they are lost.
        """
        if self._copy is not None:
            return self._copy
        if self._version is not None and self.tensor._version != self._version:
            raise Overwritten("a tensor of it was written over by something that is no operator of PyTorch's")
        return self.tensor.detach()


@dataclass(frozen=True, eq=False)
class Call:
    """A call of an operator.

    Attributes:
        target: the operator.
        args: its arguments, with `Held` in place of tensors.
        kwargs: its keyword arguments, likewise.
        results: its results, likewise, in their order.
        new: the tensors among its arguments that no call has made, and that were not there before a Function.
        several: whether it returns several results, or a list of them.
        grad: whether gradients were enabled.
        module: the path of the module in whose forward it was called; empty if there was none.
        line: the line of the user's code, as a traceback has it.
    """

    target: Any
    args: tuple
    kwargs: dict[str, Any]
    results: Sequence[Any]
    new: Sequence[Held]
    several: bool
    grad: bool
    module: str
    line: str


class Recorder(TorchDispatchMode):
    """Records the calls that are made in its context, by the node of autograd that each belongs to.

    The number of a node is drawn right before its operator runs, so that the last number that was drawn is the node's.
    What runs without a gradient has the number of the node before.

    Args:
        modules: in whose forwards the calls are.
        is_function: whether all of them are one function, as the program of a compiled region is.

    Attributes:
        calls: by that number.
        made: the tensors that are results of each node, by which result they are.
        applied: the Functions, by the number of their node, with `Held` in place of tensors; None of other nodes.
    """

    def __init__(self, modules: Modules, is_function: bool = False) -> None:
        super().__init__()
        self.calls: defaultdict[int, list[Call]] = defaultdict(list)
        self.made: defaultdict[Any, dict[int, Held]] = defaultdict(dict)
        self.applied: dict[int, Applied | None] = {}
        self._modules = modules
        self._memory: defaultdict[int, weakref.WeakSet[Held]] = defaultdict(weakref.WeakSet)
        self._made: set[int] = set()  # the identities of all results, which live as long as the calls
        # By memory, the tensors that have it; None if the calls keep one.
        self._there: dict[int, Sequence[weakref.ref] | None] = {}
        self._is_known = False  # whether it has what was there before the first Function
        self._left = contextlib.ExitStack()
        if is_function:
            self._look()

    def __enter__(self) -> Recorder:
        """Record from now on."""
        super().__enter__()
        self._left.enter_context(before_each(self._look))
        return self

    def __exit__(self, *error: Any) -> None:
        """Record no more."""
        self._left.close()
        super().__exit__(*error)

    def _look(self) -> None:
        """Look which tensors there are: what is read that a Function does not find may depend on its arguments."""
        if not self._is_known:
            self._is_known = True
            there: defaultdict[int, list[weakref.ref]] = defaultdict(list)
            for x in _tensors():
                there[memory_of(x)].append(weakref.ref(x))
            self._there = {**there, **self._there}

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and record it."""
        number, kwargs = _autograd._get_sequence_nr() - 1, kwargs or {}
        if not torch.is_grad_enabled() and number not in self.applied:  # it may be in the forward of a Function
            found = applied_in(sys._getframe(1))
            if found is not None:
                found = Applied(found.function, *mapped(self.hold, (found.args, found.kwargs)))
            self.applied[number] = found
        held_args, held_kwargs = mapped(self.hold, (args, kwargs))
        taken = [x for x in leaves((held_args, held_kwargs)) if isinstance(x, Held)]
        new = [x for x in taken if not self._is_there(x)]
        for x in _written(func, held_args, held_kwargs):
            self.save(x.memory)
        found = func(*args, **kwargs)
        several = isinstance(found, tuple | list)
        results = [mapped(self._result, y) for y in (found if several else (found,))]
        made = [y for y in leaves(results) if isinstance(y, Held)]
        self._there |= {x.memory: None for x in (*taken, *made)}
        self._made |= {id(y.tensor) for y in made}
        where = torch.is_grad_enabled(), self._modules.path, line_of_frame(sys._getframe(1))
        self.calls[number].append(Call(func, held_args, held_kwargs, results, new, several, *where))
        return found

    def _is_there(self, x: Held) -> bool:
        if x.memory not in self._there:
            return False
        having = self._there[x.memory]
        return having is None or any(of() is not None for of in having)

    def save(self, memory: int) -> None:
        """Save the numbers of all tensors in some memory, before they are written over."""
        for held in self._memory[memory]:
            held.save()

    def calls_of(self, node: Any) -> Sequence[Call]:
        """Return the calls of a node: all that a Function's forward makes, or one."""
        number = node._sequence_nr()
        calls = self.calls[number]
        if isinstance(node, BackwardCFunction):
            return calls
        if not calls:  # what it writes over is copied first, which is a node, too
            calls = [call for call in self.calls[number + 1] if call.target._schema.is_mutable]
        return calls[:1]

    def applied_by(self, node: BackwardCFunction) -> Applied | None:
        """Return the Function of a node with its arguments; None if they were not seen."""
        found = self.applied.get(node._sequence_nr())
        return found if found is not None and isinstance(node, found.function._backward_cls) else None

    def see(self, results: Sequence[Tensor]) -> None:
        """Note of which nodes these are the results."""
        for y in results:
            self.hold(y)

    def forget(self, node: Any) -> None:
        """Forget the tensors of a node, through which the gradient has passed."""
        self.calls.pop(node._sequence_nr(), None)
        self.applied.pop(node._sequence_nr(), None)
        self.made.pop(node, None)

    def _result(self, x: Any) -> Any:
        return self.hold(x, is_result=True)

    def hold(self, x: Any, is_result: bool = False) -> Any:
        """Return a tensor as it is now, whatever is written to it afterwards; what is none is returned as it is."""
        if not isinstance(x, Tensor):
            return x
        held = Held(x, is_result, is_result or id(x) in self._made)
        self._memory[held.memory].add(held)
        if x.grad_fn is not None:
            self.made[held.maker][held.which] = held
        return held


def _tensors() -> Iterator[Tensor]:
    """All tensors that there are. To ask each of half a million objects whether it is one takes twice as long."""
    objects, kinds = gc.get_objects(), _with_derived(Tensor)
    return itertools.compress(objects, map(kinds.__contains__, map(type, objects)))


def _with_derived(kind: type) -> set[type]:
    return {kind}.union(*map(_with_derived, type.__subclasses__(kind)))


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Held]:
    schema = func._schema.arguments
    names = {each.name for each in schema if each.alias_info is not None and each.alias_info.is_write}
    named = named_arguments(func, args, kwargs)
    return [x for name in names for x in leaves(named.get(name)) if isinstance(x, Held)]


def written_to(call: Call) -> Sequence[Held]:
    """Return the tensors that a call writes to."""
    return _written(call.target, call.args, call.kwargs)
