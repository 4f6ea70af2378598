"""The inputs of a problem that come as arrays of one size: along which axes other sizes make sense, and what is drawn.

A problem of an evaluator has the sizes of a benchmark, at which nothing is found that smaller ones do not show, and its
inputs are often positive, of which a wrong sign of a negative one cannot be seen.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from parity_tests.conversion.exported import without_complaints
from parity_tests.harness.exceptions.from_solution import NoAnswer
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.least_sizes import least_sizes
from parity_tests.harness.specs.size_rules import SizeRules
from parity_tests.harness.specs.spec_kinds import MOST_AXES

LARGEST = 2**14  # entries of all inputs together, beyond which a problem is judged at a part of them
_LETTERS = "nmklhwabcdefgpqrstuv"
_TRIED = (5, 3, 6, 2, 7, 4, 9, 8, 11, 10, 13, 12)  # sizes
_RATIOS = (2, 3, 4)  # of two axes of which one follows from the other
_DRAWS = 32  # of each domain: a few numbers of one draw may be positive by chance
_DRAWN: Mapping[str, Callable[[Sequence[int], torch.Generator], torch.Tensor]] = {
    "real": lambda shape, numbers: torch.randn(shape, generator=numbers),
    "positive": lambda shape, numbers: 3 * torch.rand(shape, generator=numbers) + 0.1,
    "unit": lambda shape, numbers: torch.rand(shape, generator=numbers),
}

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Place = tuple[int, int]  # an input, and one of its axes
Group = tuple[list[Place], list[Place]]  # places of one size, and those of a multiple of it that follow from it


@dataclass(frozen=True)
class ProblemInputs:
    """Inputs with names for the axes along which their sizes may be others.

    Attributes:
        names: of the inputs.
        given: the tensors; those of a large problem are without numbers.
        axes: of each, a letter for an axis that may have another size, else its size as text.
        highest: of each that holds integers, one more than the largest: a number, or the letter of an axis.
        sizes: rules for the letters, as `OpSpec.sizes` has them: the least at which the reference runs.
    """

    names: Sequence[str]
    given: Sequence[torch.Tensor]
    axes: Sequence[tuple[str, ...]]
    highest: Sequence[str | None]
    sizes: str | None = None

    @property
    def letters(self) -> list[str]:
        """The axes that may have another size."""
        return list(dict.fromkeys(axis for axes in self.axes for axis in axes if axis.isalpha()))

    @property
    def rules(self) -> SizeRules:
        """The parsed rules for their sizes."""
        return SizeRules.parse(self.sizes, self.letters) if self.sizes else SizeRules()

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

    def merged(self) -> Iterator[ProblemInputs]:
        """The same with two axes of one size as one, since a reference may run where they differ, and compute nothing.

        As PyTorch's attention with fewer values than keys, which reads memory that is not its own.
        """
        size = {
            axis: n
            for axes, x in zip(self.axes, self.given, strict=True)
            for axis, n in zip(axes, x.shape, strict=True)
        }
        for first, second in itertools.combinations(self.letters, 2):
            if size[first] == size[second] and not {first, second} & self.rules.defined:
                axes = [tuple(first if axis == second else axis for axis in each) for each in self.axes]
                highest = [first if high == second else high for high in self.highest]
                kept = [rule.text for rule in self.rules.rules if second not in rule.axes]
                yield replace(self, axes=axes, highest=highest, sizes=", ".join(kept) or None)

    def shapes(self, sizes: Mapping[str, int]) -> list[Shape]:
        """The shapes at these sizes of the axes."""
        return [tuple(sizes[axis] if axis.isalpha() else int(axis) for axis in axes) for axes in self.axes]

    def some_sizes(self) -> list[dict[str, int]]:
        """A few sizes of the axes, all different where that can be."""
        wanted = (dict(zip(self.letters, itertools.cycle(_TRIED[i:]), strict=False)) for i in (0, 3))
        return [self.rules.nearest(sizes) for sizes in wanted]

    def small(self) -> list[torch.Tensor]:
        """The given tensors, cut along the axes that may have another size until they are small enough."""
        sizes = {axis: x.shape[j] for axes, x in zip(self.axes, self.given, strict=True) for j, axis in enumerate(axes)}
        sizes, rules = {axis: size for axis, size in sizes.items() if axis.isalpha()}, self.rules
        cut = {axis for axis in sizes if axis not in rules.defined}
        while cut and sum(map(math.prod, self.shapes(sizes))) > LARGEST:
            longest = max(sorted(cut), key=sizes.__getitem__)
            try:
                less = rules.completed(sizes | {longest: -(-sizes[longest] // 2)})
            except EmptyDomain:
                less = sizes
            if less == sizes:
                cut.remove(longest)
            sizes = less
        return [self._cut(i, shape, sizes) for i, shape in enumerate(self.shapes(sizes))]

    def _cut(self, i: int, shape: Shape, sizes: Mapping[str, int]) -> torch.Tensor:
        x, high = self.given[i][tuple(map(slice, shape))].clone(), self.highest[i]
        return x if high is None or high not in sizes else x % sizes[high]


def problem_inputs(
    names: Sequence[str],
    given: Sequence[torch.Tensor],
    reference: Callable,
    fixed: Collection[int],
    bounds: Collection[int] = (),
) -> ProblemInputs:
    """Find the axes along which a reference can be called at other sizes, and the least of these.

    Args:
        names: of the inputs.
        given: the inputs; of fake tensors nothing but shape and dtype is known.
        reference: is called with tensors that have no numbers.
        fixed: sizes that an axis keeps.
        bounds: further numbers below which integers may lie.
    """
    shapes, dtypes = [tuple(x.shape) for x in given], [x.dtype for x in given]

    def runs(changed: Mapping[Place, int]) -> bool:
        made = [tuple(changed.get((i, j), size) for j, size in enumerate(shape)) for i, shape in enumerate(shapes)]
        return output_shapes(reference, made, dtypes) is not None

    free = [letter for letter in _LETTERS if letter not in names]
    letters, following = _named(_groups(shapes, fixed, runs), shapes, free)
    axes = [tuple(letters.get((i, j), str(n)) for j, n in enumerate(shape)) for i, shape in enumerate(shapes)]
    highest = [_highest(x, shapes, axes, {*fixed, *bounds}) for x in given]
    found = ProblemInputs(names, given, axes, highest, ", ".join(following) or None)
    for inputs in (found, *found.merged()):
        rules = least_sizes(inputs.letters, inputs.letters, inputs.rules, _runs_at(reference, inputs))
        if rules is not None:
            return replace(inputs, sizes=", ".join([*([inputs.sizes] if inputs.sizes else []), *rules]) or None)
    fixed_axes = [tuple(map(str, shape)) for shape in shapes]
    return ProblemInputs(names, given, fixed_axes, [_highest(x, shapes, fixed_axes, {*fixed, *bounds}) for x in given])


def _runs_at(reference: Callable, inputs: ProblemInputs) -> Callable[[Mapping[str, int]], bool]:
    """A function that says at which sizes a reference runs: without numbers, and with them if these are few."""
    dtypes = [x.dtype for x in inputs.given]

    def runs(sizes: Mapping[str, int]) -> bool:
        shapes = inputs.shapes(sizes)
        if output_shapes(reference, shapes, dtypes) is None:
            return False
        return sum(map(math.prod, shapes)) > LARGEST or _runs_with_numbers(reference, shapes, dtypes)

    return runs


def _named(groups: Sequence[Group], shapes: Shapes, free: Sequence[str]) -> tuple[Mapping[Place, str], Sequence[str]]:
    """Letters for the groups, and rules for those that follow from others."""
    letters, rules, left = dict[Place, str](), list[str](), iter(free)
    for group, following in groups:
        if len({*letters.values()}) + 1 + bool(following) > MOST_AXES:
            break
        letter = next(left)
        letters |= dict.fromkeys(group, letter)
        if following:
            size, multiple = (shapes[i][j] for i, j in (group[0], following[0]))
            other = next(left)
            letters |= dict.fromkeys(following, other)
            rules.append(f"{other} = {multiple // size}*{letter}")
    return letters, rules


def _groups(shapes: Shapes, fixed: Collection[int], runs: Callable[[Mapping[Place, int]], bool]) -> list[Group]:
    """The places that may have another size: each alone, or together with as few others as can be."""
    size = {(i, j): n for i, shape in enumerate(shapes) for j, n in enumerate(shape) if n > 1 and n not in fixed}
    rest, groups = [*size], list[Group]()

    def tried(group: Sequence[Place], following: Sequence[Place] = ()) -> None:
        if not all(place in rest for place in (*group, *following)):
            return
        n = size[group[0]]
        ratio = size[following[0]] // n if following else 1
        for others in ((n + 1, n + 2), (2 * n, 3 * n)):
            if all(runs(dict.fromkeys(group, m) | dict.fromkeys(following, ratio * m)) for m in others):
                groups.append(([*group], [*following]))
                rest[:] = [place for place in rest if place not in (*group, *following)]
                return

    for place in size:
        tried([place])
    for n in dict.fromkeys(size.values()):
        alike = [place for place in rest if size[place] == n]
        for count in (2, 3, len(alike)):
            for group in itertools.combinations(alike, count) if count > 1 else ():
                tried(group)
    for first, second in itertools.permutations([*rest], 2):
        if size[second] in [ratio * size[first] for ratio in _RATIOS]:
            tried([first], [second])
    return sorted(groups)


def _highest(x: torch.Tensor, shapes: Shapes, axes: Sequence[tuple[str, ...]], bounds: Collection[int]) -> str | None:
    """One more than the largest of integers that may stand there: the least size that is larger than all of them."""
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        return None
    if is_fake(x) or not x.numel():
        return "2"
    largest = int(x.max())
    named = {n: axis for shape, names in zip(shapes, axes, strict=True) for n, axis in zip(shape, names, strict=True)}
    known = {str(n): n for n in bounds} | {axis: n for n, axis in named.items()}
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


def _runs_with_numbers(call: Callable, shapes: Shapes, dtypes: Sequence[torch.dtype]) -> bool:
    with _quiet(), torch.no_grad():
        try:
            call(*_tensors(torch.zeros, shapes, dtypes))
        except Exception:  # whatever it raises
            return False
    return True


def shapes_of(results: object) -> list[Shape]:
    """The shapes of all tensors among the results of a function."""
    leaves = tree_leaves(results)
    return [tuple(y.shape) for y in leaves if isinstance(y, torch.Tensor)]


def follows(call: Callable, reference: Callable, inputs: ProblemInputs) -> str | None:
    """Why a solution cannot be judged at other sizes than the given ones; None if it can."""
    if not inputs.letters:
        return "no axis of the inputs may have another size"
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
    numbers = torch.Generator().manual_seed(0)
    for domain, drawn in _DRAWN.items():
        for _ in range(_DRAWS):
            tensors = [
                drawn(shape, numbers) if x.is_floating_point() else torch.zeros(shape, dtype=x.dtype)
                for shape, x in zip(shapes, inputs.given, strict=True)
            ]
            with _quiet(), torch.no_grad():
                results = tree_leaves(reference(*tensors))
            if not all(bool(torch.isfinite(y).all()) for y in results if isinstance(y, torch.Tensor)):
                break
        else:
            return domain
    return "real"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings, and with PyTorch's random numbers left where they were."""
    with without_complaints(), torch.random.fork_rng(devices=[]):
        yield


def _tensors(make: Callable, shapes: Shapes, dtypes: Sequence[torch.dtype]) -> list[torch.Tensor]:
    return [make(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
