"""The maps that are compared: an operator, its VJP and JVP, and the VJPs and JVPs of those.

A map takes flat arguments to flat results. For any map f: A -> B,

    VJP(f): A, B -> A    (x, y_bar) -> J(x)ᵀ y_bar
    JVP(f): A, A -> B    (x, x_dot) -> J(x) x_dot

so every order is the first order of the one below, and one pair of constructions makes them all, in either framework.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

ORDERS: dict[str, tuple[str, ...]] = {  # how a map is made from the operator, innermost first
    "forward": (),
    "vjp": ("vjp",),
    "jvp": ("jvp",),
    "vjp_of_vjp": ("vjp", "vjp"),
    "jvp_of_vjp": ("vjp", "jvp"),
    "vjp_of_jvp": ("jvp", "vjp"),
    "jvp_of_jvp": ("jvp", "jvp"),
    "vjp_of_vjp_of_vjp": ("vjp", "vjp", "vjp"),
    "jvp_of_vjp_of_vjp": ("vjp", "vjp", "jvp"),  # by which the oracle's own third order is certified
}
BASES = {name: next(b for b, o in ORDERS.items() if o == order[:-1]) for name, order in ORDERS.items() if order}


def rests_on(check: str, maps: Sequence[str]) -> frozenset[str]:
    """The checks of what a check is made of: of the maps that it uses, and of those that these differentiate."""
    return frozenset({*maps, *(BASES[name] for name in maps), "forward"} - {check})


@dataclass(frozen=True)
class Slot:
    """One argument or result of a map: its label, and the operator's input or output that it is shaped like."""

    label: str
    like: str

    @property
    def conjugated(self) -> bool:
        """True if an odd number of VJPs made it: of complex numbers, JAX's is then the conjugate of PyTorch's."""
        return self.label.removeprefix(self.like).count("_bar") % 2 == 1


@dataclass(frozen=True)
class Map:
    """A map's arguments and results. `base` arguments belong to the map that it differentiates."""

    name: str
    arguments: tuple[Slot, ...]
    results: tuple[Slot, ...]
    base: int


@functools.cache
def derivative_map(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Map:
    """The map of that name (a key of `ORDERS`) for an operator whose inputs and outputs have these names."""
    arguments = tuple(Slot(x, x) for x in inputs)
    results = tuple(Slot(y, y) for y in outputs)
    base = 0
    for mode in ORDERS[name]:
        base = len(arguments)
        if mode == "vjp":
            bars = tuple(Slot(f"{s.label}_bar", s.like) for s in results)
            arguments, results = arguments + bars, tuple(Slot(f"{s.label}_bar", s.like) for s in arguments)
        else:
            dots = tuple(Slot(f"{s.label}_dot", s.like) for s in arguments)
            arguments, results = arguments + dots, tuple(Slot(f"{s.label}_dot", s.like) for s in results)
    return Map(name, arguments, results, base)
