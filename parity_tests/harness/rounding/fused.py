"""The error of a sum that has another sum as a term, where right code adds up both in one go.

`c + a @ b` is one instruction of BLAS (addmm, addmv, a linear layer): its accumulator starts at c, so that all partial
sums round relative to c, too. Whoever computes a @ b first and adds c at the end rounds relative to c once. Where c is
large the first loses more, and it is as right. So a sum that has a contraction of K terms among its own is a
contraction of all of them, in the order that is worst:

    E(c + Σ t_k)  is at least  γ_K+1 (|c| + Σ |t_k|)

A sum that is used for many entries, as the mean of a row is for all of the row, is a number by itself from there on: it
is computed once. With K such entries added up again, its terms would otherwise be counted K times.

For every variable that is such a sum, its number of terms, the sum M of their magnitudes, how much of γ_K M its bound
holds already, and how many of the terms may be equal are carried along: from one sum to the next, through what only
moves numbers, through factors, by which the terms may have been multiplied instead, and through calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.bound.base import every
from parity_tests.harness.primitives.bound.terms import unless_part_overflows
from parity_tests.harness.primitives.registry import Kind, Terms, has
from parity_tests.harness.rounding.steps import Step

_MOST_PENDING = 32


class Sizes(NamedTuple):
    """The quantities that the bound of a sum is made of, entry by entry.

    A number stands for an array that has it everywhere.

    magnitude: M, the sum of the magnitudes of its terms.
    charged: what its bound holds of γ M already.
    pairs: its pairs of equal terms, see `bound.terms`.
    density: Σ K² / M of the sums that it is made of: how many terms they have for a spread of 1, summed over the terms.
        Times the spacing of a total, it is the number of roundings that have no mean of 0, see `bound.terms`.
    """

    magnitude: np.ndarray
    charged: np.ndarray | float
    pairs: np.ndarray | float
    density: np.ndarray | float

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of them as arrays of the shape of the magnitude."""
        shape = self.magnitude.shape
        return tuple(np.broadcast_to(a, shape) for a in self)


class Sum:
    """A sum of so many terms. Most are never added to anything, so their sizes are computed when first asked for.

    `pending`: how many others that computation may ask for, one after the other. It asks them by calls within calls,
    which Python limits: those of long chains are computed in between.
    """

    def __init__(self, terms: int, compute: Callable[[], Sizes], pending: int = 0) -> None:
        self.terms = terms
        self._compute = compute
        self._sizes: Sizes | None = None
        self.pending = pending % _MOST_PENDING
        if pending and not self.pending:
            _ = self.sizes

    @property
    def sizes(self) -> Sizes:
        """Its sizes, computed once."""
        if self._sizes is None:
            self._sizes = self._compute()
        return self._sizes


class Sums:
    """The sums among the variables of one jaxpr: what is not known by its variable is a number by itself."""

    def __init__(self) -> None:
        self._known: dict[core.Var | None, Sum] = {}  # None, which stands for a literal, is no key

    def entering(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr) -> Sums:
        """Return the sums among the arguments of a jaxpr that an equation calls."""
        inner = Sums()
        inner._take(self, eqn.invars, jaxpr.invars)
        return inner

    def leaving(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr, inner: Sums) -> None:
        """Remember those among the results of the call."""
        self._take(inner, jaxpr.outvars, eqn.outvars)

    def _take(self, other: Sums, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        for source, target in zip(sources, targets, strict=True):
            known = other._of(source)
            if known is not None:
                self._known[target] = known

    def _of(self, atom: Any) -> Sum | None:
        return None if isinstance(atom, core.Literal) else self._known.get(atom)

    def lost(self, step: Step, x: Sequence[np.ndarray], y: np.ndarray, precision: Precision) -> np.ndarray | float:
        """Return the error that an equation's result may have besides what its rule counts, and remember the result.

        Args:
            step: the equation.
            x: the values of its operands.
            y: the value of its first result.
            precision: the format.
        """
        name, counted = step.name, step.terms
        if counted is None and not (self._known and step.follows_sums):
            return 0.0
        known = [*map(self._known.get, step.variables)]
        if counted is None:
            if not any(known):
                return 0.0
            known = [None if s and _is_repeated(step, a, y) else s for s, a in zip(known, x, strict=True)]
            if not any(known):
                return 0.0
        result, adds = step.result, step.adds
        if result is None or (not step.real and any(a.dtype.kind not in "fc" for a in x[name == "select_n" :])):
            return 0.0
        complex_numbers = not step.real and any(a.dtype.kind == "c" for a in x)
        of_sum = known[0] if name == "reduce_sum" else None
        if counted is not None:
            made = _contraction(step, counted, x, of_sum, complex_numbers, precision)
        elif adds:
            made = _added(x, known)
        elif name == "div" and known[1]:
            return 0.0
        else:
            made = _carried(step, x, known)
        if made.terms <= 1:
            return 0.0
        if not (adds or of_sum):
            self._known[result] = made
            return 0.0
        magnitude, charged, pairs, density = sizes = made.sizes
        charge = _charge(made.terms, sizes, complex_numbers, precision)
        self._known[result] = Sum(made.terms, lambda: Sizes(magnitude, np.maximum(charge, charged), pairs, density))
        lost = np.maximum(charge - charged, 0.0)
        if not every(np.isfinite(lost)):
            lost = np.where(np.isfinite(lost), lost, 0.0)  # an infinite term, as of a mask, is exact
        return unless_part_overflows(lost, magnitude, y, precision, of_terms=0.0)  # which its rule counts


def _is_repeated(step: Step, x: np.ndarray, y: np.ndarray) -> bool:
    """True if an equation uses an entry of its operand for several entries of its result."""
    if x.size >= y.size:
        return False
    return step.name in ("broadcast_in_dim", "mul", "div", "select_n") or has(step.name, Kind.ADDS)


def _charge(terms: int, sizes: Sizes, complex_numbers: bool, precision: Precision) -> np.ndarray:
    """γ M; a complex product is two real ones in each part: see `bound.complex`."""
    if not complex_numbers and precision.all_roundings_add_up(terms, sizes.pairs):
        return terms * precision.u_acc * sizes.magnitude
    biased = np.asarray(sizes.density * sizes.magnitude)
    biased = (biased if every(np.isfinite(biased)) else np.nan_to_num(biased)) * 2 * precision.u_acc
    if complex_numbers:
        return math.sqrt(2) * precision.gamma(2 * terms, 4 * sizes.pairs, 4 * biased) * sizes.magnitude
    return precision.gamma(terms, sizes.pairs, biased) * sizes.magnitude


def _sizes_of(x: np.ndarray, known: Sum | None) -> Sizes:
    if known is not None:
        return known.sizes
    return Sizes(np.abs(x), 0.0, 1.0, 0.0)  # a number by itself


def _contraction(
    step: Step,
    counted: Terms,
    x: Sequence[np.ndarray],
    terms: Sum | None,
    complex_numbers: bool,
    precision: Precision,
) -> Sum:
    """Return a contraction, charged as by the rules of `primitives.sums`; a sum of sums is charged for both."""

    def summed(*a: np.ndarray) -> np.ndarray:
        return np.asarray(step.evaluate(*a))

    def sizes() -> Sizes:
        magnitude = summed(*map(np.abs, x))
        pairs = counted.pairs(step.eqn, x, K, precision)
        density = np.where(magnitude > 0, float(K) ** 2 / magnitude, 0.0)
        charged = _charge(K, Sizes(magnitude, 0.0, pairs, density), complex_numbers, precision)
        if terms is None:
            return Sizes(magnitude, charged, pairs, density)
        of_terms = Sizes(*map(summed, terms.sizes.arrays))
        return of_terms._replace(charged=charged + of_terms.charged)

    K = counted.count(step.eqn, x)
    return Sum(K if terms is None else K * terms.terms, sizes)


def _added(x: Sequence[np.ndarray], known: Sequence[Sum | None]) -> Sum:
    first, second = known
    if first is not None and second is not None:
        a, b = first.sizes, second.sizes
        both = Sizes(a.magnitude + b.magnitude, a.charged + b.charged, a.pairs + b.pairs, a.density + b.density)
        return Sum(first.terms + second.terms, lambda: both)
    one, number = cast(Sum, first or second), x[0] if first is None else x[1]
    magnitude, charged, pairs, density = one.sizes
    sizes = Sizes(magnitude + np.abs(number), charged, pairs + 1.0, density)
    return Sum(one.terms + 1, lambda: sizes)


def _carried(step: Step, x: Sequence[np.ndarray], known: Sequence[Sum | None]) -> Sum:
    """Moved to other places, or multiplied by something, which may be multiplied into each of the terms."""
    name = step.name

    def sizes() -> Sizes:
        if name in ("mul", "div"):
            return _multiplied(x, known) if name == "mul" else _scaled(_sizes_of(x[0], known[0]), 1 / np.abs(x[1]))
        made = [_sizes_of(a, s) for a, s in zip(x, known, strict=True)]
        if has(name, Kind.KEEPS_SIZE):
            return made[0]
        if name == "select_n":
            made[0] = Sizes(*[x[0]] * len(Sizes._fields))  # which of the others
        return Sizes(*(np.asarray(step.evaluate(*each)) for each in zip(*(s.arrays for s in made), strict=True)))

    sums = [s for s in known if s is not None]
    return Sum(max(s.terms for s in sums), sizes, 1 + max(s.pending for s in sums))


def _multiplied(x: Sequence[np.ndarray], known: Sequence[Sum | None]) -> Sizes:
    """The sizes of a product of two sums: whichever factor is multiplied into the other's terms."""
    first, second = (
        None if s is None else _scaled(s.sizes, np.abs(factor)) for s, factor in zip(known, x[::-1], strict=True)
    )
    if first is not None and second is not None:
        both = [*map(np.maximum, first, second)]
        return Sizes(both[0], first.charged + second.charged, *both[2:])
    magnitude, charged, pairs, density = cast(Sizes, first or second)
    return Sizes(np.maximum(magnitude, np.abs(x[0]) * np.abs(x[1])), charged, np.maximum(pairs, 1.0), density)


def _scaled(sizes: Sizes, factor: np.ndarray) -> Sizes:
    density = sizes.density
    if isinstance(density, np.ndarray) or density:
        density = np.where(factor > 0, density / factor, 0.0)
    return Sizes(sizes.magnitude * factor, sizes.charged * factor, sizes.pairs, density)
