"""What products of many factors lose to underflow, in whatever order they are multiplied.

A product of K factors is rounded K - 1 times. Each rounding is of a partial product, of some factors S, and may lose η,
the format's `tiny`, which the remaining factors multiply:

    lost <= η Π_j∉S |x_j| <= η M,    M = Π_j max(|x_j|, 1),    so that all lose (K - 1) η M at most.

The oracle's own order may lose far less: (2.5 · 1e-4) · 5e-3 has no digit in float16 that 2.5 · (1e-4 · 5e-3) has not,
but in the second one the first product is off by η / 2, and 2.5 of that comes out. M and K - 1 are carried along from
one multiplication to the next, through sums, since c (x + y) may be c x + c y, and through what only moves numbers. Any
other result is a number by itself, with which a new product begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.rounding.base import every
from parity_tests.harness.rounding.evaluation import evaluated
from parity_tests.harness.rounding.registry import Kind, has

_CARRIES = Kind.ADDS | Kind.MOVES | Kind.KEEPS_SIZE | Kind.SELECTS


class Product(NamedTuple):
    """M, entry by entry, and K - 1."""

    largest: np.ndarray
    roundings: int


class Products:
    """Those of one jaxpr: what is not known by its variable is a number by itself."""

    def __init__(self) -> None:
        self._known: dict[core.Var, Product] = {}

    def _of(self, atom: Any, value: np.ndarray) -> Product:
        known = None if _is_literal(atom) else self._known.get(atom)
        if known is not None:
            return known
        largest = np.maximum(np.abs(value), 1.0)
        return Product(largest if every(np.isfinite(largest)) else np.where(np.isfinite(value), largest, 1.0), 0)

    def _knows_any(self, atoms: Sequence[Any]) -> bool:
        return any(not _is_literal(x) and x in self._known for x in atoms)

    def lost(self, eqn: core.JaxprEqn, operands: Sequence[tuple], precision: Precision) -> np.ndarray | float:
        """What the result of an equation may have lost besides the one η that its rule counts; it is remembered."""
        name = eqn.primitive.name
        if name != "mul" and not (self._known and has(name, _CARRIES) and self._knows_any(eqn.invars)):
            return 0.0
        x = [value for value, _ in operands]
        if any(a.dtype.kind not in "fc" for a in x[name == "select_n" :]):
            return 0.0
        made = [self._of(atom, a) for atom, a in zip(eqn.invars, x, strict=True)]
        largest, roundings = [p.largest for p in made], max(p.roundings for p in made)
        (result,) = eqn.outvars
        if name != "mul":
            self._known[result] = Product(_moved(eqn, x, largest), roundings)
            return 0.0
        product = Product(largest[0] * largest[1], made[0].roundings + made[1].roundings + 1)
        self._known[result] = product
        if product.roundings == 1:
            return 0.0  # of two numbers there is one order only
        zero = (x[0] == 0) | (x[1] == 0)
        return np.where(zero, 0.0, product.roundings * precision.tiny * product.largest)


def _moved(eqn: core.JaxprEqn, x: Sequence[np.ndarray], largest: Sequence[np.ndarray]) -> np.ndarray:
    name = eqn.primitive.name
    if has(name, Kind.KEEPS_SIZE):
        return largest[0]
    if has(name, Kind.ADDS):
        return np.maximum(*largest)
    return np.asarray(evaluated(eqn, x[0], *largest[1:]) if name == "select_n" else evaluated(eqn, *largest))


def _is_literal(atom: Any) -> bool:
    return isinstance(atom, core.Literal)
