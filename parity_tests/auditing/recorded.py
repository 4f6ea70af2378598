"""An operation of an audit as data: its arrays, and how it was called, so that it can be run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parity_tests.auditing.calls import Held, Overwritten
from parity_tests.auditing.operation import Facts, Place
from parity_tests.auditing.program import Program
from parity_tests.auditing.stored import Stored
from parity_tests.conversion.graph import numbers_of

_WORDS = (torch.dtype, torch.device, torch.layout, torch.memory_format)  # each is written by its own name


@dataclass(frozen=True)
class Recorded:
    """An operation as data.

    Attributes:
        arrays: by name, its inputs in the order of its arguments first.
        facts: how it was called.
    """

    arrays: Mapping[str, np.ndarray]
    facts: Facts


def recorded(
    program: Program,
    results: Sequence[tuple[str, int | None]],
    cotangents: Mapping[int, Tensor],
    precision: str,
    numbers: Sequence[np.ndarray],
    stored: Sequence[Stored],
) -> Recorded:
    """Return an operation as data.

    Args:
        program: the operation.
        results: the names of the program's results, and their places among all that the operation returns.
        cotangents: by the places of the program's results.
        precision: the format that its bounds are for.
        numbers: of the program's inputs.
        stored: what was compared.
    """
    inputs = _Inputs(program, numbers)
    arguments = {name: inputs.encoded(name, value) for name, value in program.arguments.named.items()}
    for name, x in zip(program.names, program.inputs, strict=True):
        inputs.add(name, x)
    arrays, dtypes, drawn = inputs.arrays, inputs.dtypes, dict[str, int]()
    for k, c in cotangents.items():
        name, (_, place) = f"cotangent {k}", results[k]
        arrays[name], dtypes[name] = numbers_of(c), _word(c.dtype)
        if place is not None:
            drawn[name] = place
    for each in stored:
        arrays |= {each.name: each.found, f"right {each.name}": each.exact, f"bound of {each.name}": each.bound}
    of_results = dict(results)
    of_gradients = {f"gradient of {name}": _input(name) for name in program.names}
    compared = [
        Place(each.name, each.is_finite, of_results.get(each.name), of_gradients.get(each.name)) for each in stored
    ]
    keywords = [name for name in arguments if name in program.arguments.keywords]
    device = str(program.inputs[0].tensor.device) if program.inputs else "cpu"
    return Recorded(arrays, Facts(device, precision, arguments, keywords, dtypes, drawn, compared))


class _Inputs:
    """The arrays that an operation takes, by name, and the dtypes of their tensors."""

    def __init__(self, program: Program, numbers: Sequence[np.ndarray]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.dtypes: dict[str, str] = {}
        self._known = {id(x.tensor): each for each, x in zip(numbers, program.inputs, strict=True)}
        self._names = {x.place: name for name, x in zip(program.names, program.inputs, strict=True)}
        self._names |= {(id(x.tensor),): name for name, x in zip(program.names, program.inputs, strict=True)}

    def add(self, name: str, x: Held) -> str:
        """Add a tensor, and return the name of its array.

        Raises:
            Overwritten: its numbers are lost.
        """
        name = self._names.get((id(x.tensor),), self._names.get(x.place, name))
        key = _input(name)
        if key not in self.arrays:
            self.arrays[key] = self._known[id(x.tensor)] if id(x.tensor) in self._known else numbers_of(x.before())
            self.dtypes[key] = _word(x.tensor.dtype)
        return key

    def encoded(self, name: str, value: Any) -> Any:
        """Return an argument as JSON has it: a tensor by the name of its array."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Held):
            try:
                return {"array": self.add(name, value)}
            except Overwritten:
                return {"unknown": "a tensor that was written over"}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, _WORDS):
            return {type(value).__name__: _word(value)}
        if isinstance(value, list | tuple):
            items = [self.encoded(f"{name}[{i}]", item) for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        return {"unknown": type(value).__name__}


def decoded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the argument that `encoded` has made JSON of.

    Raises:
        LookupError: it is not known, or has no tensor; the message says of which kind it is.
    """
    if isinstance(value, list):
        return [decoded(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, of),) = value.items() if len(value) == 1 else [("unknown", "something else")]
    words = {each.__name__: each for each in _WORDS}
    if kind == "array" and of in tensors:
        return tensors[of]
    if kind == "complex" and isinstance(of, list) and len(of) == 2:
        return complex(*of)
    if kind == "tuple" and isinstance(of, list):
        return tuple(decoded(item, tensors) for item in of)
    if kind == "device" and isinstance(of, str):
        return torch.device(of)
    if kind in words and isinstance(of, str) and isinstance(getattr(torch, of, None), words[kind]):
        return getattr(torch, of)
    raise LookupError(str(of))


def unknown_in(value: Any) -> Iterator[str]:
    """Yield the kinds of all that an argument has and that is not known."""
    if isinstance(value, dict) and "unknown" in value:
        yield str(value["unknown"])
    elif isinstance(value, list | dict):
        for each in value if isinstance(value, list) else value.values():
            yield from unknown_in(each)


def _word(x: Any) -> str:
    return str(x).removeprefix("torch.")


def _input(name: str) -> str:
    return f"input {name.removeprefix('input ')}"
