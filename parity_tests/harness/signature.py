"""NumPy gufunc signatures: "(n,d),(m,d)->(n,m)" names the axes of an operator's inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Axes = tuple[str, ...]

_ARGUMENT = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_ARGUMENTS = rf"{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*"
_SIGNATURE = re.compile(rf"\s*{_ARGUMENTS}\s*->\s*{_ARGUMENTS}\s*")


@dataclass(frozen=True)
class Signature:
    """The axes of every input and output. An axis is a name, or a number where its size is fixed."""

    inputs: tuple[Axes, ...]
    outputs: tuple[Axes, ...]

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a gufunc signature.

        Raises:
            ValueError: the text is not a signature.
        """
        if not _SIGNATURE.fullmatch(text):
            raise ValueError(
                f"signature {text!r} is not a gufunc signature; write the axes of each input and output by name, such "
                'as "(n,d),(m,d)->(n,m)", with "()" for a scalar'
            )
        sides = (re.findall(_ARGUMENT, side) for side in text.split("->"))
        inputs, outputs = (tuple(tuple(re.findall(r"\w+", argument)) for argument in side) for side in sides)
        return cls(inputs, outputs)

    @property
    def axes(self) -> Axes:
        """The named axes of the inputs, in order of first appearance."""
        return tuple(dict.fromkeys(axis for argument in self.inputs for axis in argument if not axis.isdigit()))

    def input_shapes(self, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        """The inputs' shapes, given the size of every named axis."""
        return tuple(tuple(int(a) if a.isdigit() else sizes[a] for a in argument) for argument in self.inputs)

    def output_mismatch(self, sizes: Mapping[str, int], shapes: tuple[tuple[int, ...], ...]) -> str | None:
        """What is wrong with the outputs' shapes; None if nothing. An axis that no input has may have any size."""
        if len(shapes) != len(self.outputs):
            return f"returns {len(shapes)} outputs, but its signature has {len(self.outputs)}"
        known = dict(sizes)
        for i, (axes, shape) in enumerate(zip(self.outputs, shapes, strict=True)):
            named = f"({','.join(axes)})"
            if len(axes) != len(shape):
                return f"returns shape {shape} for output {i}, but its signature has {named}"
            for axis, size in zip(axes, shape, strict=True):
                expected = int(axis) if axis.isdigit() else known.setdefault(axis, size)
                if size != expected:
                    return f"returns shape {shape} for output {i} {named}, where axis {axis} is {expected}"
        return None
