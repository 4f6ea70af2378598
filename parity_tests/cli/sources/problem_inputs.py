"""The inputs of a problem that come as arrays of one size: along which axes other sizes make sense, and what is drawn.

A problem of an evaluator has the sizes of a benchmark, at which nothing is found that smaller ones do not show, and its
inputs are often positive, of which a wrong sign of a negative one cannot be seen.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from parity_tests.harness.exceptions.from_solution import NoAnswer

LARGEST = 2**14  # entries of all inputs together, beyond which a problem is judged at a part of them
_LETTERS = "nmklhwabcdefgpqrstuv"
_TRIED = (5, 3, 6, 2, 7, 4, 9, 8, 11, 10, 13, 12)  # sizes
_OTHER = (3, 5)  # of one axis alone, each of which must run

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Place = tuple[int, int]  # an input, and one of its axes


@dataclass(frozen=True)
class ProblemInputs:
    """Inputs with names for the axes along which their sizes may be others.

    Attributes:
        names: of the inputs.
        given: the tensors; those of a large problem are without numbers.
        axes: of each, a letter for an axis that may have any size, else its size as text.
        highest: of each that holds integers, one more than the largest: a number, or the letter of an axis.
    """

    names: Sequence[str]
    given: Sequence[torch.Tensor]
    axes: Sequence[tuple[str, ...]]
    highest: Sequence[str | None]

    @property
    def letters(self) -> list[str]:
        """The axes that may have any size."""
        return list(dict.fromkeys(axis for axes in self.axes for axis in axes if axis.isalpha()))

    def text(self, real: str = "real") -> str:
        """Inputs as `OpSpec.from_torch` reads them; `real`: the domain of real numbers."""
        domains = [
            f" integer(0,{high})" if high is not None else "" if x.dtype != torch.bool else " boolean"
            for x, high in zip(self.given, self.highest, strict=True)
        ]
        written = (f"{name}: ({','.join(axes)})" for name, axes in zip(self.names, self.axes, strict=True))
        of_real = "" if real == "real" else f" {real}"
        parts = (
            f"{text}{of_real if x.is_floating_point() else domain}"
            for text, domain, x in zip(written, domains, self.given, strict=True)
        )
        return ", ".join(parts)

    def shapes(self, sizes: Mapping[str, int]) -> list[Shape]:
        """The shapes at these sizes of the axes."""
        return [tuple(sizes[axis] if axis.isalpha() else int(axis) for axis in axes) for axes in self.axes]

    def some_sizes(self) -> list[dict[str, int]]:
        """A few sizes of the axes, all different."""
        return [dict(zip(self.letters, itertools.cycle(_TRIED[i:]), strict=False)) for i in (0, 3)]

    def small(self) -> list[torch.Tensor]:
        """The given tensors, cut along the axes that may have any size until they are small enough."""
        sizes = {axis: x.shape[j] for axes, x in zip(self.axes, self.given, strict=True) for j, axis in enumerate(axes)}
        sizes = {axis: size for axis, size in sizes.items() if axis.isalpha()}
        while sizes and max(sizes.values()) > 1 and sum(map(math.prod, self.shapes(sizes))) > LARGEST:
            longest = max(sizes, key=sizes.__getitem__)
            sizes[longest] = -(-sizes[longest] // 2)
        return [self._cut(i, shape, sizes) for i, shape in enumerate(self.shapes(sizes))]

    def _cut(self, i: int, shape: Shape, sizes: Mapping[str, int]) -> torch.Tensor:
        x, high = self.given[i][tuple(map(slice, shape))].clone(), self.highest[i]
        return x if high is None or high not in sizes else x % sizes[high]


def problem_inputs(
    names: Sequence[str], given: Sequence[torch.Tensor], reference: Callable, fixed: Collection[int]
) -> ProblemInputs:
    """Find the axes along which a reference can be called at other sizes.

    Args:
        names: of the inputs.
        given: the inputs; of fake tensors nothing but shape and dtype is known.
        reference: is called with tensors that have no numbers.
        fixed: sizes that an axis keeps, since a module was made for them.
    """
    shapes = [tuple(x.shape) for x in given]

    def runs(changed: Mapping[Place, int]) -> bool:
        made = [tuple(changed.get((i, j), size) for j, size in enumerate(shape)) for i, shape in enumerate(shapes)]
        return output_shapes(reference, made, [x.dtype for x in given]) is not None

    groups = _groups(shapes, fixed, lambda places: all(runs(dict.fromkeys(places, size)) for size in _OTHER))
    free = [letter for letter in _LETTERS if letter not in names]
    letters = {place: letter for letter, group in zip(free, groups, strict=False) for place in group}
    every = {place: size for group, size in zip(groups, itertools.cycle(_TRIED)) for place in group}
    if not runs({place: size for place, size in every.items() if place in letters}):
        letters = {}
    axes = [tuple(letters.get((i, j), str(n)) for j, n in enumerate(shape)) for i, shape in enumerate(shapes)]
    return ProblemInputs(names, given, axes, [_highest(x, shapes, axes, fixed) for x in given])


def _groups(shapes: Shapes, fixed: Collection[int], may_vary: Callable[[Collection[Place]], bool]) -> list[list[Place]]:
    """The places that may have another size: each alone, or together with others of the same size."""
    places = [(i, j) for i, shape in enumerate(shapes) for j, n in enumerate(shape) if n > 1 and n not in fixed]
    groups = [[place] for place in places if may_vary([place])]
    rest = [place for place in places if [place] not in groups]
    for size in dict.fromkeys(shapes[i][j] for i, j in rest):
        same = [place for place in rest if shapes[place[0]][place[1]] == size]
        for count in (len(same), 2):
            for group in map(list, itertools.combinations(same, count)):
                if count > 1 and not any(place in known for place in group for known in groups) and may_vary(group):
                    groups.append(group)
    return sorted(groups)


def _highest(x: torch.Tensor, shapes: Shapes, axes: Sequence[tuple[str, ...]], fixed: Collection[int]) -> str | None:
    """One more than the largest of integers that may stand there: the least size that is larger than all of them."""
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        return None
    if is_fake(x) or not x.numel():
        return "2"
    largest = int(x.max())
    named = {n: axis for shape, names in zip(shapes, axes, strict=True) for n, axis in zip(shape, names, strict=True)}
    known = {str(n): n for n in fixed} | {axis: n for n, axis in named.items()}
    larger = {axis: n for axis, n in known.items() if n > largest}
    return min(larger, key=larger.__getitem__) if larger else str(largest + 1)


def is_fake(x: torch.Tensor) -> bool:
    """Whether a tensor has no numbers."""
    return isinstance(x, torch._subclasses.FakeTensor)


def output_shapes(call: Callable, shapes: Shapes, dtypes: Sequence[torch.dtype]) -> list[Shape] | None:
    """The shapes that a function of tensors returns at inputs without numbers; None if it raises there."""
    with _quiet(), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        try:
            return shapes_of(call(*_tensors(torch.empty, shapes, dtypes)))
        except Exception:  # whatever it raises
            return None


def shapes_of(results: object) -> list[Shape]:
    """The shapes of all tensors among the results of a function."""
    leaves = tree_leaves(results)
    return [tuple(y.shape) for y in leaves if isinstance(y, torch.Tensor)]


def follows(call: Callable, reference: Callable, inputs: ProblemInputs) -> str | None:
    """Why a solution cannot be judged at other sizes than the given ones; None if it can."""
    dtypes = [x.dtype for x in inputs.given]
    for sizes in inputs.some_sizes():
        shapes = inputs.shapes(sizes)
        described = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
        with _quiet(), torch.no_grad():
            try:
                found = shapes_of(call(*_tensors(torch.ones, shapes, dtypes)))
            except NoAnswer as error:
                return f"at {described} {error}"
            except Exception as error:  # whatever it raises
                return f"at {described} it raises {type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        expected = output_shapes(reference, shapes, dtypes)
        if found != expected:
            return f"at {described} its output has the shape {found}, and the reference's {expected}"
    return None


def real_domain(reference: Callable, inputs: ProblemInputs) -> str:
    """The domain of real inputs: all of them, unless the reference has no finite value there but at positive ones."""
    shapes = inputs.shapes(inputs.some_sizes()[0])
    for domain, drawn in (("real", torch.randn), ("positive", torch.rand), ("unit", torch.rand)):
        tensors = [
            drawn(shape) if x.is_floating_point() else torch.zeros(shape, dtype=x.dtype)
            for shape, x in zip(shapes, inputs.given, strict=True)
        ]
        if domain == "positive":
            tensors = [3 * x + 0.1 if x.is_floating_point() else x for x in tensors]
        with _quiet(), torch.no_grad():
            results = tree_leaves(reference(*tensors))
        if all(bool(torch.isfinite(y).all()) for y in results if isinstance(y, torch.Tensor)):
            return domain
    return "real"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings, and with PyTorch's random numbers left where they were."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        yield


def _tensors(make: Callable, shapes: Shapes, dtypes: Sequence[torch.dtype]) -> list[torch.Tensor]:
    return [make(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
