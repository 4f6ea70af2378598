"""The error of products of many factors by underflow, and their overflow, in whatever order they are multiplied.

A product of K factors is rounded K - 1 times. Each rounding is of a partial product, of some factors S, and may lose η,
the format's `tiny`, which the remaining factors multiply:

    lost <= η Π_j∉S |x_j| <= η M,    M = Π_j max(|x_j|, 1),    so that all lose (K - 1) η M at most.

The oracle's own order may lose far less: (2.5 · 1e-4) · 5e-3 has no digit in float16 that 2.5 · (1e-4 · 5e-3) has not,
but in the second one the first product is off by η / 2, and 2.5 of that comes out.

M is also the largest partial product of all orders: that of the factors above 1. Where it exceeds the format, a right
version may store an infinity on its way: 0.02 · 1e3 · 1e3 is 2e4, and (1e3 · 1e3) · 0.02 is infinite in float16. An
exact zero may come out as NaN there, which infinity · 0 is. This is no reason to believe a number: only a result that
is none is held to the bounds of `Precision.with_any_order`, which are infinite there (`Trial.compare_result`). A factor
that is itself beyond the format, as the constant of a mask, is not counted for this: where it is multiplied by more
than 0, the product overflows in every order. A number that is divided by is no factor, and so a quotient x / y by way
of y y, where x / y and both derivatives fit, is no other order of theirs.

The computed factors are off, and so are products of theirs: |x_j| stands for (|x_j| + E_j) (1 + u). M and K - 1 are
carried along from one multiplication to the next, through sums, since c (x + y) may be c x + c y, through what only
moves numbers, and through calls, as of `jnp.where`. Any other result is a number by itself, with which a new product
begins.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.bound.base import every, largest_factor, unless_part_of_product_overflows
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.rounding.steps import Step

_MOST_PENDING = 32


class Product:
    """A product with K - 1 roundings. Most have no further factors, so that M is computed when it is first needed.

    `compute`: M of the factors that do not exceed a number. `limit`: the largest number of the format. `pending`: how
    many others that computation may ask for, one after the other: see `rounding.fused.Sum`.
    """

    def __init__(self, roundings: int, limit: float, compute: Callable[[float], np.ndarray], pending: int = 0) -> None:
        self.roundings = roundings
        self._limit, self._compute = limit, compute
        self._largest: np.ndarray | None = None
        self._representable: np.ndarray | None = None
        self.pending = pending % _MOST_PENDING
        if pending and not self.pending:
            _ = self.representable

    @property
    def largest(self) -> np.ndarray:
        """M, entry by entry, computed once."""
        if self._largest is None:
            self._largest = self._compute(math.inf)
        return self._largest

    @property
    def representable(self) -> np.ndarray:
        """M of the factors that the format has, computed once; where M fits into the format all of them are."""
        if self._representable is None:
            fits = every(self.largest <= self._limit)
            self._representable = self.largest if fits else self._compute(self._limit)
        return self._representable

    def of(self, limit: float) -> np.ndarray:
        """M of all factors, or of those up to the largest number of the format."""
        return self.largest if limit == math.inf else self.representable


class Products:
    """The products of one jaxpr: what is not known by its variable is a number by itself.

    `most`: with how many roundings a product is one as well, since nobody multiplies so many factors in another order.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._known: dict[core.Var | None, Product] = {}  # None, which stands for a literal, is no key

    def entering(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr) -> Products:
        """Return the products among the arguments of a jaxpr that an equation calls."""
        inner = Products(self._most)
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

    def lost(
        self, step: Step, x: Sequence[np.ndarray], e: Sequence[np.ndarray], precision: Precision
    ) -> np.ndarray | float:
        """Return the error that an equation's result may have besides the one η of its rule, and remember the result.

        Infinite where it may overflow in another order.
        """
        name, known, result = step.name, self._known, step.eqn.outvars[0]
        if name != "mul" and not (known and step.follows_products):
            return 0.0
        products = [p if p is None or p.roundings <= self._most else None for p in map(known.get, step.variables)]
        if name != "mul" and not any(products):
            return 0.0
        if not step.real and any(a.dtype.kind not in "fc" for a in x[name == "select_n" :]):
            return 0.0
        limit = precision.largest
        made = [
            product or Product(0, limit, functools.partial(largest_factor, a, b, precision))
            for a, b, product in zip(x, e, products, strict=True)
        ]
        if name != "mul":
            known[result] = Product(
                max(p.roundings for p in made),
                limit,
                lambda most: _moved(step, x, [p.of(most) for p in made]),
                1 + max(p.pending for p in made),
            )
            return 0.0
        first, second = made
        roundings = first.roundings + second.roundings + 1
        product = known[result] = Product(roundings, limit, lambda most: first.of(most) * second.of(most))
        return _lost(product, x, precision) if any(products) else 0.0  # of two numbers there is one order only


def _lost(product: Product, x: Sequence[np.ndarray], precision: Precision) -> np.ndarray:
    """Return the error that a product of two operands x, one of which is a product, may have in another order."""
    lost = product.roundings * precision.tiny * product.largest
    if np.count_nonzero(x[0]) < x[0].size or np.count_nonzero(x[1]) < x[1].size:
        lost = np.where((x[0] == 0) | (x[1] == 0), 0.0, lost)
    if not precision.any_order:
        return lost
    overflows = unless_part_of_product_overflows(lost, product.representable, precision)
    if overflows is lost or (every(np.isfinite(x[0])) and every(np.isfinite(x[1]))):
        return overflows
    # An infinity times whatever but 0 is one in every order.
    return np.where(np.isinf(x[0]) | np.isinf(x[1]), lost, overflows)


def _moved(step: Step, x: Sequence[np.ndarray], largest: Sequence[np.ndarray]) -> np.ndarray:
    if has(step.name, Kind.KEEPS_SIZE):
        return largest[0]
    if step.adds:
        return np.maximum(*largest)
    return np.asarray(step.evaluate(x[0], *largest[1:]) if step.name == "select_n" else step.evaluate(*largest))
