"""Numbers that follow from constants are computed while a function is exported, so that its code may read them.

`if (mask == causal).all()`, `edges[:, edges[0] != edges[1]]` and `lengths.max().item()` need numbers, and an export has
none. Here it has those of constants, of what makes tensors of no others, such as `torch.arange`, and of the arguments
that are given with their numbers. Which of these the code has read is noted: the program holds for them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import _is_functional_tensor  # pyright: ignore[reportPrivateImportUsage]
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from parity_tests.conversion import packed
from parity_tests.conversion.plainly import plainly

_MOST = 2**20  # entries of a tensor of real numbers: more are data, and no mask
# Methods that give Python's numbers. Some are calls of no operator.
_READING = {
    *("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__"),
    *("equal", "is_nonzero"),
}
_IN_PLACE = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
_WRITING = {"__setitem__", *(f"__i{name}__" for name in _IN_PLACE)}
# They take numbers and no tensors behind their first argument, so that a tensor there is read.
_OF_SIZES = {
    *("expand", "interpolate", "multinomial", "narrow", "new_empty", "new_ones", "new_zeros", "pad", "repeat"),
    *("reshape", "split", "tile", "unflatten", "view"),
}
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)
# Of the shape and dtype of their first argument.
_UNWRITTEN = {"empty", "empty_like", "new_empty"}
_OF_A_SHAPE = {"zeros_like", "ones_like", "full_like", "new_tensor", "new_zeros", "new_ones", "new_full"}


class KnownNumbers:
    """The numbers of tensors that are known, in the course of one export.

    Args:
        given: by the position of an input, its numbers.

    Attributes:
        read: the positions of those inputs whose numbers the function has read.
    """

    def __init__(self, given: Mapping[int, torch.Tensor]) -> None:
        self._given = given
        self.read: set[int] = set()
        self._numbers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # a tensor, kept for its id; its numbers
        self._sources: dict[int, set[int]] = {}  # the inputs that the numbers in a memory follow from
        self._unknown: set[int] = set()  # memories that something unknown was written to

    def begin(self, tensors: Sequence[torch.Tensor]) -> None:
        """Begin a run of the function with these inputs."""
        self._numbers, self._sources, self._unknown = {}, {}, set()
        for i, numbers in self._given.items():
            self._know(tensors[i], _copy(numbers), {i})

    def called(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return what a call returns: numbers, if they are known and cannot be had otherwise."""
        unknown = bool(args) and isinstance(args[0], torch.Tensor) and self._of(args[0]) is None
        if name in ("__getitem__", "__setitem__") and _needs_positions(name, args):
            args = args[0], self._without_masks(args[1]), *args[2:]
        elif name == "masked_select" and len(args) == 2 and unknown and self._of(args[1]) is not None:
            x, mask = torch.broadcast_tensors(*args)
            self._know(mask, _expanded(self._of(args[1]), mask.shape), self._sources_of(args[1]))
            func, name, args = torch.Tensor.__getitem__, "__getitem__", (x, self._without_masks(mask))
        elif name == "repeat_interleave" and len(args) > 1 and isinstance(args[1], torch.Tensor) and unknown:
            return self._repeated(func, *args, **kwargs)
        elif (layout := packed.layout_of(name, args)) is not None and self._of(layout) is not None:
            return self._packed(func, name, args, layout)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        known = [self._of(x) for x in given]
        if name in _UNWRITTEN:
            return self._unwritten(self._with_unknown(func, name, args, kwargs))
        if name in _OF_A_SHAPE and known and known[0] is None:
            known[0] = _zeros(given[0])
        is_made = not given and callable(getattr(torch, name, None))
        if any(x is None for x in known) or not (known or is_made) or "out" in kwargs or "generator" in kwargs:
            return self._with_unknown(func, name, args, kwargs)
        if _writes(name, kwargs) and type(args[0]) is torch.Tensor and id(args[0]) not in self._numbers:
            return func(*args, **kwargs)  # to a tensor that the function has closed over
        sources = {i for x in known if x is not None for i in self._sources.get(_memory(x), ())}
        of = dict(zip(map(id, given), known, strict=True))
        found = _computed(func, *tree_map(lambda x: of[id(x)] if isinstance(x, torch.Tensor) else x, (args, kwargs)))
        if found is None:
            return self._with_unknown(func, name, args, kwargs)
        numbers, reads = found
        if _writes(name, kwargs) and known[0] is not None:
            self._sources.setdefault(_memory(known[0]), set()).update(sources)
        if reads or name in _READING:
            self.read |= sources
            if not (_writes(name, kwargs) or _is_view(numbers, known)):
                return tree_map(lambda x: self._constant(x, sources), numbers)
            args, kwargs = tree_map(self._number, (args, kwargs))  # m[i] += 1 must be recorded
        result = func(*args, **kwargs)
        self._know_all(result, numbers, sources)
        return result

    def _without_masks(self, index: Any) -> Any:
        """An index with the positions of what a mask selects in the place of each mask whose numbers are known."""
        found = list[Any]()
        for part in index if isinstance(index, tuple) else (index,):
            mask = self._of(part) if _is_mask(part) else None
            if mask is None:
                found.append(part)
            else:
                self.read |= self._sources_of(part)
                found += [self._constant(x, self._sources_of(part)) for x in _positions(mask)]
        return tuple(found)

    def _sizes(self, given: Any) -> Any:
        """Arguments with a number in the place of each tensor that is an integer which is known."""
        for x in tree_leaves(given):
            if not isinstance(self._number(x), torch.Tensor) and isinstance(x, torch.Tensor):
                self.read |= self._sources_of(x)
        return tree_map(self._number, given)

    def _repeated(
        self, func: Any, x: torch.Tensor, repeats: torch.Tensor, dim: int | None = None, **kwargs: Any
    ) -> Any:
        """Entries that are repeated as often as known numbers say."""
        numbers = self._of(repeats)
        if numbers is None:
            return func(x, repeats, dim, **kwargs)
        self.read |= self._sources_of(repeats)
        x, dim = (x.flatten(), 0) if dim is None else (x, dim)
        return x.index_select(dim, self._constant(_repeats(numbers, x.shape[dim]), self._sources_of(repeats)))

    def _unwritten(self, x: torch.Tensor) -> torch.Tensor:
        """A tensor with the numbers that PyTorch gives memory without numbers, if it is to be deterministic."""
        if x.dtype.is_floating_point or x.dtype.is_complex:
            number: float = float("nan")
        else:
            number = True if x.dtype is torch.bool else torch.iinfo(x.dtype).max
        made = torch.full(x.shape, number, dtype=x.dtype, device=x.device)
        if x.numel() <= _MOST:
            with plainly():
                numbers = torch.full(x.shape, number, dtype=x.dtype)
            self._know(made, numbers, set())
        return made

    def _packed(self, func: Any, name: str, args: Any, layout: torch.Tensor) -> Any:
        """The result of a function of packed sequences, whose layout is known."""
        numbers, sources = self._of(layout), self._sources_of(layout)
        assert numbers is not None
        self.read |= sources
        found, other = packed.called(func, name, args, numbers)
        return found if other is None else (found, self._constant(other, sources))

    def _sources_of(self, x: torch.Tensor) -> set[int]:
        numbers = self._of(x)
        return set() if numbers is None else {*self._sources.get(_memory(numbers), ())}

    def _with_unknown(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name in _OF_SIZES:
            args, kwargs = (*args[:1], *self._sizes(args[1:])), self._sizes(kwargs)
        if _writes(name, kwargs):
            written = tree_leaves(kwargs["out"] if "out" in kwargs else args[:1])
            numbers = [self._of(x) for x in written if isinstance(x, torch.Tensor)]
            self._unknown |= {_memory(x) for x in numbers if x is not None}
        return func(*args, **kwargs)

    def _number(self, x: Any) -> Any:
        """The number of an index that is known, which makes a view as the index itself does; else the argument."""
        is_index = isinstance(x, torch.Tensor) and not x.dim() and x.dtype in _INTEGERS
        numbers = self._of(x) if is_index else None
        return x if numbers is None else _int(numbers)

    def _of(self, x: torch.Tensor) -> torch.Tensor | None:
        if id(x) not in self._numbers and _is_constant(x):
            self._know(x, _copy(x), set())
        _, numbers = self._numbers.get(id(x), (None, None))
        return None if numbers is None or _memory(numbers) in self._unknown else numbers

    def _know(self, x: torch.Tensor, numbers: torch.Tensor, sources: set[int]) -> None:
        # Within torch.func's transforms a tensor may have no memory of its own
        if is_functorch_wrapped_tensor(numbers):
            return
        if x.shape == numbers.shape and x.dtype == numbers.dtype and _is_small(numbers):
            self._numbers[id(x)] = x, numbers
            self._sources.setdefault(_memory(numbers), set()).update(sources)

    def _know_all(self, result: Any, numbers: Any, sources: set[int]) -> None:
        for x, y in zip(tree_leaves(result), tree_leaves(numbers), strict=True):
            if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
                self._know(x, y, sources)

    def _constant(self, x: Any, sources: set[int]) -> Any:
        if isinstance(x, np.ndarray):  # nobody would see what is written to it
            x = x.copy()
            x.flags.writeable = False
        if not isinstance(x, torch.Tensor):
            return x
        constant = x.clone()  # which is recorded
        self._know(constant, x, sources)
        return constant


class _Watch(TorchDispatchMode):
    """Notes whether operators draw numbers, leave them open, or have results whose shape follows from numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.is_open = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, tags = func.name(), func.tags
        self.is_open |= torch.Tag.nondeterministic_seeded in tags or "::empty" in name or "::new_empty" in name
        by_mask = [x.dtype in (torch.bool, torch.uint8) for x in tree_leaves(args[1:]) if isinstance(x, torch.Tensor)]
        of_shape = torch.Tag.dynamic_output_shape in tags and (any(by_mask) or not name.startswith("aten::index"))
        self.reads |= of_shape or torch.Tag.data_dependent_output in tags
        return func(*args, **(kwargs or {}))


def _computed(func: Any, args: Any, kwargs: Any) -> tuple[Any, bool] | None:
    """The result of a call, and whether numbers are read in it; None if it has none that is known."""
    watch = _Watch()
    with plainly(), torch.no_grad(), watch:
        try:
            found = func(*args, **kwargs)
        except Exception:  # whatever is raised is raised again, where the call is recorded
            return None
    return None if watch.is_open else (found, watch.reads)


def writes(name: str) -> bool:
    """Return whether a function of this name writes to its first argument."""
    return name in _WRITING or (name.endswith("_") and not name.endswith("__"))


def _zeros(x: torch.Tensor) -> torch.Tensor:
    with plainly():
        return torch.zeros((), dtype=x.dtype).expand(x.shape)


def _is_mask(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in (torch.bool, torch.uint8)


def _needs_positions(name: str, args: Any) -> bool:
    """Whether an index has a mask, and what it selects has a shape that follows from its numbers."""
    if name == "__setitem__" and not (isinstance(args[2], torch.Tensor) and args[2].dim()):
        return False
    return any(map(_is_mask, args[1] if isinstance(args[1], tuple) else args[1:2]))


def _positions(mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with plainly():
        return mask.nonzero(as_tuple=True)


def _repeats(numbers: torch.Tensor, size: int) -> torch.Tensor:
    with plainly():
        return torch.arange(size).repeat_interleave(numbers)


def _expanded(x: torch.Tensor | None, shape: Sequence[int]) -> torch.Tensor:
    assert x is not None
    with plainly():
        return x.expand(*shape)


def _copy(x: torch.Tensor) -> torch.Tensor:
    with plainly():
        return x.detach().clone()


def _is_constant(x: torch.Tensor) -> bool:
    """Whether a tensor has numbers of its own, and is none of an export or of a transform."""
    plain = type(x) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    wrapped = _is_functional_tensor(x) or is_functorch_wrapped_tensor(x)
    return plain and not wrapped and x.device.type != "meta" and _is_small(x)


def _is_small(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and not (x.is_floating_point() and x.numel() > _MOST)


def _memory(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata


def _writes(name: str, kwargs: Mapping[str, Any]) -> bool:
    return writes(name) or kwargs.get("inplace") is True or kwargs.get("out") is not None


def _is_view(found: Any, known: Sequence[torch.Tensor | None]) -> bool:
    memories = {_memory(x) for x in known if x is not None}
    return any(isinstance(x, torch.Tensor) and _memory(x) in memories for x in tree_leaves(found))


def _int(x: torch.Tensor) -> int:
    with plainly():
        return int(x)
