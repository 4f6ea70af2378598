"""The operators by their names in ATen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
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
        try:
            self._listed(str(name))
        except KeyError:
            return False
        return True

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

    def _listed(self, name: str) -> str:
        full = name if "::" in name else f"aten::{name}"
        listed = full if full in self._functions else full.partition(".")[0]
        if listed not in self._functions:
            raise KeyError(f"jax_ref.aten has no {full}; list(jax_ref.aten.OPERATORS) has the names of all operators")
        return listed


def operators_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions that a module defines, and what its table `OPERATORS` has besides."""
    public = {
        name: f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and not name.startswith("_")
    }
    return public | dict(getattr(module, "OPERATORS", {}))
