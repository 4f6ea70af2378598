"""The operators by their names in ATen."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any


class Operators(Mapping[str, Callable[..., Any]]):
    """Operators by name: `aten["aten::tanh"]`, `aten["aten::std.correction"]`, `aten["tanh"]`.

    One function serves all overloads of an operator whose arguments have the same names; an overload that has others is
    listed by its full name. Iteration yields the names that are listed, with "aten::".
    """

    def __init__(self, families: Mapping[str, ModuleType]) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._families: dict[str, str] = {}
        for family, module in families.items():
            for name, function in operators_of(module).items():
                if f"aten::{name}" in self._functions:
                    raise ValueError(f"aten::{name} is in {self._families[f'aten::{name}']} and in {family}")
                self._functions[f"aten::{name}"] = function
                self._families[f"aten::{name}"] = family

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return the function of an operator, or of an overload if it has one of its own.

        Raises:
            KeyError: there is none.
        """
        return self._functions[self._listed(name)]

    def __contains__(self, name: object) -> bool:
        return self._found(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def family(self, name: str) -> str:
        """Return the family of an operator, the module's name.

        Raises:
            KeyError: there is no such operator.
        """
        return self._families[self._listed(name)]

    def _found(self, name: str) -> str | None:
        full = name if "::" in name else f"aten::{name}"
        return next((each for each in (full, full.partition(".")[0]) if each in self._functions), None)

    def _listed(self, name: str) -> str:
        listed = self._found(name)
        if listed is None:
            full = name if "::" in name else f"aten::{name}"
            raise KeyError(
                f"jax_ref.aten has no {full}; {similar(full.removeprefix('aten::'), self)}"
                "list(jax_ref.aten.OPERATORS) has the names of all operators"
            )
        return listed


def similar(name: str, operators: Iterable[str]) -> str:
    """Return "did you mean ...? " with the names that are most like another one, or nothing if none is."""
    names = {each.removeprefix("aten::") for each in operators}
    packet = name.partition(".")[0].lower()
    overloads = sorted(each for each in names if each.partition(".")[0] == packet)
    found = overloads or difflib.get_close_matches(packet, sorted(names), n=3, cutoff=0.7)
    found = found or sorted((each for each in names if packet in each), key=len)[:3] if len(packet) > 2 else found
    return f"did you mean {' or '.join(map(repr, found))}? " if found else ""


def operators_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions that a module defines, and what its table `OPERATORS` has besides."""
    public = {
        name: f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and not name.startswith("_")
    }
    return public | dict(getattr(module, "OPERATORS", {}))
