"""The arguments that a problem's model is made with: which of them are sizes, and smaller ones that go together.

What a number is for is not seen from its value: a model may have as many channels as its input has rows. It is found by
runs without numbers: the model is made with another number, and called with inputs of which some axes have it, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from parity_tests.cli.sources.problem_inputs import Shape, is_fake, shapes_of
from parity_tests.conversion.exported import without_complaints

_SMALL = 16  # what is no larger stays: the size of a kernel, an axis, a stride
_GROUPS = 4  # in the place of a number of groups
_MOST_TOGETHER = 4  # places that are changed together

Place = tuple[str | int, ...]  # ("argument", 0, 1): in a nested argument; ("axis", 0, 1): of an input


@dataclass(frozen=True, eq=False)
class Made:
    """A model as it is made of arguments, and called with inputs of some shapes.

    Attributes:
        make: the model, of its arguments.
        call: calls a model.
        arguments: that the problem gives.
        shapes, dtypes: of its inputs.
    """

    make: Callable[[Sequence[Any]], torch.nn.Module]
    call: Callable[..., object]
    arguments: Sequence[Any]
    shapes: Sequence[Shape]
    dtypes: Sequence[torch.dtype]

    @property
    def numbers(self) -> dict[Place, int]:
        """The integers among the arguments, by their places."""
        return {("argument", *place): n for place, n in _integers(self.arguments)}

    @property
    def axes(self) -> dict[Place, int]:
        """The sizes of the inputs, by their places."""
        return {("axis", i, j): n for i, shape in enumerate(self.shapes) for j, n in enumerate(shape)}

    def changed(self, new: Mapping[Place, int]) -> tuple[Sequence[Any], list[Shape]]:
        """Arguments and shapes with other numbers at some places."""
        arguments = _replaced(self.arguments, {place[1:]: n for place, n in new.items() if place[0] == "argument"})
        shapes = [tuple(new.get(("axis", i, j), n) for j, n in enumerate(x)) for i, x in enumerate(self.shapes)]
        return arguments, shapes

    def at(self, new: Mapping[Place, int]) -> tuple[list[Shape], list[Shape]] | None:
        """The shapes of parameters and outputs with other numbers at some places; None if it does not run."""
        arguments, shapes = self.changed(new)
        with (
            without_complaints(),
            torch.random.fork_rng(devices=[]),
            FakeTensorMode(allow_non_fake_inputs=True),
            torch.no_grad(),
        ):
            try:
                model = self.make(arguments)
                made = [torch.empty(shape, dtype=dtype) for shape, dtype in zip(shapes, self.dtypes, strict=True)]
                return [tuple(p.shape) for p in model.parameters()], shapes_of(self.call(model, *made))
            except Exception:  # whatever it raises
                return None

    def unseen(self) -> set[int]:
        """The numbers that change neither parameters nor outputs, wherever they are: an axis may mean the same."""
        same, unseen, seen = self.at({}), set[int](), set[int]()
        for place, n in self.numbers.items():
            mute = n > 1 and self.at({place: 2 * n}) == same and not self._divides(place, n)
            (unseen if mute else seen).add(n)
        return unseen - seen

    def smaller(self) -> dict[Place, int]:
        """Smaller numbers for the sizes among the arguments, and for the axes that go with them.

        The model runs with them, and what divides another number still does, and is less.
        """
        new, same = dict[Place, int](), self.at({})
        numbers = dict(sorted(self.numbers.items(), key=lambda each: each[1]))
        for place, n in numbers.items():
            if n <= _SMALL or place in new:
                continue
            alike = [other for other, m in {**numbers, **self.axes}.items() if m == n and other not in {place, *new}]
            if same is not None and self.at({place: 2 * n}) == same:  # it says nothing that parameters would show
                if self._divides(place, n) and self.at({**new, place: _GROUPS}) is not None:
                    new[place] = _GROUPS
                continue
            together = self._together(place, n, alike, new)
            smaller = next(
                (m for m in self._candidates(n, new) if self.at({**new, **dict.fromkeys(together, m)})), None
            )
            new |= dict.fromkeys(together, smaller) if smaller is not None else {}
        return new

    def _divides(self, place: Place, n: int) -> bool:
        """Return whether a number is one of groups: it divides a larger one, and one that does not is refused."""
        larger = any(m > n and m % n == 0 for m in self.numbers.values())
        return larger and self.at({place: n + 1}) is None

    def _together(self, place: Place, n: int, alike: Sequence[Place], new: Mapping[Place, int]) -> list[Place]:
        """The fewest places of one number that have another one together; none if none do."""
        for count in range(min(len(alike), _MOST_TOGETHER) + 1):
            for others in itertools.combinations(alike, count):
                if self.at({**new, **dict.fromkeys((place, *others), 2 * n)}) is not None:
                    return [place, *others]
        return []

    def _candidates(self, n: int, new: Mapping[Place, int]) -> Iterator[int]:
        """Numbers less than `n`, the smallest first; those that are taken come last."""
        parts = {new.get(place, m) for place, m in self.numbers.items() if 1 < m < n and n % m == 0}
        fitting = [m for m in range(6, min(n, 2**10)) if all(m > part and m % part == 0 for part in parts)]
        taken = {*new.values()}
        return iter(sorted(fitting, key=lambda m: m in taken))


def cut(given: Sequence[torch.Tensor], shapes: Sequence[Shape]) -> list[torch.Tensor]:
    """Tensors of smaller shapes; integers are 0, which lies below all that they may have to."""
    parts = [x if tuple(x.shape) == shape else _part(x, shape) for x, shape in zip(given, shapes, strict=True)]
    return [x if x.is_floating_point() or x.is_complex() or is_fake(x) else torch.zeros_like(x) for x in parts]


def _part(x: torch.Tensor, shape: Shape) -> torch.Tensor:
    return x[tuple(map(slice, shape))].clone()


def _integers(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], int]]:
    if isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from _integers(each, (*place, i))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _integers(each, (*place, key))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield place, value


def _replaced(value: Any, new: Mapping[Place, int], place: tuple[str | int, ...] = ()) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_replaced(each, new, (*place, i)) for i, each in enumerate(value)])
    if isinstance(value, dict):
        return {key: _replaced(each, new, (*place, key)) for key, each in value.items()}
    return new.get(place, value)
