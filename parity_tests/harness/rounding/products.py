"""What products of many factors lose to underflow, in whatever order they are multiplied.

A product of K factors is rounded K - 1 times. Each rounding is of a partial product, of some factors S, and may lose η,
the format's `tiny`, which the remaining factors multiply:

    lost <= η Π_j∉S |x_j| <= η M,    M = Π_j max(|x_j|, 1),    so that all lose (K - 1) η M at most.

The oracle's own order may lose far less: (2.5 · 1e-4) · 5e-3 has no digit in float16 that 2.5 · (1e-4 · 5e-3) has not,
but in the second one the first product is off by η / 2, and 2.5 of that comes out. M and K - 1 are carried along from
one multiplication to the next, through sums, since c (x + y) may be c x + c y, through what only moves numbers, and
through calls, as of `jnp.where`. Any other result is a number by itself, with which a new product begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.rounding.base import every
from parity_tests.harness.rounding.registry import Kind, has
from parity_tests.harness.rounding.steps import Step

_MOST_PENDING = 32


class Product:
    """A product with K - 1 roundings. Most have no further factors, so that M is computed when it is first needed.

    `pending`: how many others that computation may ask for, one after the other: see `rounding.fused.Sum`.
    """

    def __init__(self, roundings: int, compute: Callable[[], np.ndarray], pending: int = 0) -> None:
        self.roundings = roundings
        self._compute = compute
        self._largest: np.ndarray | None = None
        self.pending = pending % _MOST_PENDING
        if pending and not self.pending:
            _ = self.largest

    @property
    def largest(self) -> np.ndarray:
        """M, entry by entry, computed once."""
        if self._largest is None:
            self._largest = self._compute()
        return self._largest


def _largest(value: np.ndarray) -> np.ndarray:
    """Return M of a number by itself."""
    largest = np.maximum(np.abs(value), 1.0)
    return largest if every(np.isfinite(largest)) else np.where(np.isfinite(value), largest, 1.0)


class Products:
    """Those of one jaxpr: what is not known by its variable is a number by itself."""

    def __init__(self) -> None:
        self._known: dict[core.Var | None, Product] = {}  # None, which stands for a literal, is no key

    def entering(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr) -> Products:
        """Those among the arguments of a jaxpr that an equation calls."""
        inner = Products()
        inner._take(self, eqn.invars, jaxpr.invars)
        return inner

    def leaving(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr, inner: Products) -> None:
        """Remember those among the results of the call."""
        self._take(inner, jaxpr.outvars, eqn.outvars)

    def _take(self, other: Products, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        for source, target in zip(sources, targets, strict=True):
            known = None if isinstance(source, core.Literal) else other._known.get(source)
            if known is not None:
                self._known[target] = known

    def lost(self, step: Step, x: Sequence[np.ndarray], precision: Precision) -> np.ndarray | float:
        """What the result of an equation may have lost besides the one η that its rule counts; it is remembered."""
        name, known, result = step.name, self._known, step.eqn.outvars[0]
        if name != "mul" and not (known and step.follows_products):
            return 0.0
        products = [*map(known.get, step.variables)]
        if name != "mul" and not any(products):
            return 0.0
        if not step.real and any(a.dtype.kind not in "fc" for a in x[name == "select_n" :]):
            return 0.0
        if name == "mul" and not any(products):  # of two numbers there is one order only
            known[result] = Product(1, lambda: _largest(x[0]) * _largest(x[1]))
            return 0.0
        made = [product or Product(0, lambda a=a: _largest(a)) for a, product in zip(x, products, strict=True)]
        if name != "mul":
            known[result] = Product(
                max(p.roundings for p in made),
                lambda: _moved(step, x, [p.largest for p in made]),
                1 + max(p.pending for p in made),
            )
            return 0.0
        first, second = made
        product = Product(first.roundings + second.roundings + 1, lambda: first.largest * second.largest)
        known[result] = product
        lost = product.roundings * precision.tiny * product.largest
        if np.count_nonzero(x[0]) == x[0].size and np.count_nonzero(x[1]) == x[1].size:
            return lost
        return np.where((x[0] == 0) | (x[1] == 0), 0.0, lost)


def _moved(step: Step, x: Sequence[np.ndarray], largest: Sequence[np.ndarray]) -> np.ndarray:
    if has(step.name, Kind.KEEPS_SIZE):
        return largest[0]
    if step.adds:
        return np.maximum(*largest)
    return np.asarray(step.evaluate(x[0], *largest[1:]) if step.name == "select_n" else step.evaluate(*largest))
