"""NumPy gufunc signatures: "(n,d),(m,d)->(n,m)" names the axes of an operator's inputs and outputs.

"(n|1,d),(n,d)->(n,d)" says that the first input may be of size 1 along n: as in NEP 20, whose optional axes, "n?", are
not served, since they make two operators of one. "(...,d),(d)->(...,d)" says that any number of axes may come first,
the same ones wherever "..." is written: batch, batch2 and so on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from parity_tests.harness.specs.signature_grammar import ARGUMENT, ELLIPSIS, LEADING, is_signature, why_not

Axes = tuple[str, ...]
Place = tuple[int, int]  # an input, and one of its axes, by position; "..." counts as one
BATCH = ("batch", "batch2", "batch3")  # the axes for which "..." stands, as many as a sample has


@dataclass(frozen=True)
class Signature:
    """The axes of every input and output: names, numbers where the size is fixed, "..." for any number of axes.

    Attributes:
        inputs: the axes of each input.
        outputs: the axes of each output.
        broadcast: the (input, axis) positions at which an input may be of size 1 instead, in order.
    """

    inputs: tuple[Axes, ...]
    outputs: tuple[Axes, ...]
    broadcast: tuple[Place, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a gufunc signature.

        Raises:
            ValueError: the text is not a signature, or broadcasts an axis to which nothing gives a size.
        """
        if not is_signature(text):
            raise ValueError(why_not(text))
        sides = (re.findall(ARGUMENT, side) for side in text.split("->"))
        inputs, outputs = (tuple(tuple(re.findall(LEADING, argument)) for argument in side) for side in sides)
        for i, argument in enumerate(outputs):
            for axis in argument:
                if "|" in axis:
                    raise ValueError(
                        f"signature {text!r} broadcasts axis {_name(axis)} of output {i}; only an input can be of "
                        "size 1 along an axis that others have longer"
                    )
        broadcast = tuple((i, j) for i, axes in enumerate(inputs) for j, axis in enumerate(axes) if "|" in axis)
        signature = cls(tuple(tuple(map(_name, axes)) for axes in inputs), outputs, broadcast)
        signature._check_ellipsis(text)
        for place in broadcast:
            if not signature.sized_without((place,)):
                i, axis = place[0], signature.inputs[place[0]][place[1]]
                raise ValueError(
                    f"signature {text!r} broadcasts axis {axis} of input {i}, but no other axis of an input is named "
                    f"{axis}; write {axis} without |1, or name it where its size comes from"
                )
        return signature

    def _check_ellipsis(self, text: str) -> None:
        named = {axis for axes in (*self.inputs, *self.outputs) for axis in axes}
        if ELLIPSIS in named and not self.any_rank:
            raise ValueError(f'signature {text!r} has "..." in an output and in no input; no input says what it is')
        taken = named.intersection(BATCH)
        if self.any_rank and taken:
            raise ValueError(f'signature {text!r} names an axis {min(taken)}, as those of "..." are called; rename it')

    @property
    def any_rank(self) -> bool:
        """True if inputs may have any number of leading axes."""
        return any(ELLIPSIS in axes for axes in self.inputs)

    @property
    def core(self) -> Axes:
        """The named axes of the inputs without those of "...", in order of first appearance."""
        named = (axis for axes in self.inputs for axis in axes if not axis.isdigit() and axis != ELLIPSIS)
        return tuple(dict.fromkeys(named))

    @property
    def axes(self) -> Axes:
        """The named axes of the inputs, in order of first appearance, with one axis, batch, for "..."."""
        return self.at({BATCH[0]: 0}).core

    def at(self, sizes: Collection[str]) -> Signature:
        """Return the signature with the axes batch, batch2, ... that are among the sizes in the place of "..."."""
        batch = tuple(axis for axis in BATCH if axis in sizes)

        def put(axes: Axes) -> Axes:
            return (*batch, *axes[1:]) if axes[:1] == (ELLIPSIS,) else axes

        return replace(self, inputs=tuple(map(put, self.inputs)), outputs=tuple(map(put, self.outputs)))

    def sized_without(self, places: Collection[Place]) -> bool:
        """Return whether each axis that is of size 1 at these places gets its size from another place."""
        left = {axis for i, axes in enumerate(self.inputs) for j, axis in enumerate(axes) if (i, j) not in places}
        return all(self.inputs[i][j] in left or self.inputs[i][j].isdigit() for i, j in places)

    def input_shapes(self, sizes: Mapping[str, int], ones: Collection[Place] = ()) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the inputs.

        Args:
            sizes: the size of every named axis.
            ones: the (input, axis) positions at which an input is of size 1 instead.
        """
        return tuple(
            tuple(1 if (i, j) in ones else int(a) if a.isdigit() else sizes[a] for j, a in enumerate(axes))
            for i, axes in enumerate(self.at(sizes).inputs)
        )

    def output_mismatch(self, sizes: Mapping[str, int], shapes: tuple[tuple[int, ...], ...]) -> str | None:
        """Return what is wrong with the shapes of the outputs, or None if they fit the signature.

        An axis that no input has may have any size here; `free_axes` checks those.
        """
        if len(shapes) != len(self.outputs):
            return f"returns {len(shapes)} outputs, but its signature has {len(self.outputs)}"
        known = dict(sizes)
        for i, (axes, shape) in enumerate(zip(self.at(sizes).outputs, shapes, strict=True)):
            named = f"({','.join(axes)})"
            if len(axes) != len(shape):
                return f"returns shape {shape} for output {i}, but its signature has {named}"
            for axis, size in zip(axes, shape, strict=True):
                expected = int(axis) if axis.isdigit() else known.setdefault(axis, size)
                if size != expected:
                    return f"returns shape {shape} for output {i} {named}, where axis {axis} is {expected}"
        return None


def _name(axis: str) -> str:
    return axis.split("|")[0].strip()
