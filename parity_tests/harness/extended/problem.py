"""Exact results of a problem, and the error that it forces: how far one rounding of everything given moves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.extended.adaptive import context, exact
from parity_tests.harness.extended.evaluation import evaluate, numbers_of
from parity_tests.harness.extended.remembered import Remembered
from parity_tests.harness.numbers.formats import Precision

Move = tuple[int, tuple[int, ...]]  # which argument, and the place in it


@dataclass(frozen=True, eq=False)
class Problem:
    """A program at arguments that are exact in a format.

    Attributes:
        values: the exact results, rounded to float64; NaN where they are not known.
    """

    program: core.ClosedJaxpr
    args: Sequence[np.ndarray]
    precision: Precision
    values: list[np.ndarray]
    _exact: list[np.ndarray]
    _bits: int
    _sums: list[list[np.ndarray]] = field(default_factory=list)  # E_problem after each of its terms

    @classmethod
    def of(cls, program: core.ClosedJaxpr, args: Sequence[np.ndarray], precision: Precision) -> Problem:
        """The problem of a program, all of whose primitives have a record (`evaluation.missing`)."""
        found = exact(program, args, precision.tiny)
        return cls(program, args, precision, [_as_float64(y) for y in found.values], found.values, found.bits)

    def errors(self, candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """How far numbers of float64 are from the exact results, without the rounding of these to float64."""
        mp = context()
        with mp.workprec(self._bits):
            pairs = zip(candidates, self._exact, strict=True)
            return [_as_float64(_distance(numbers_of(mp, c), y)) for c, y in pairs]

    def forced(self, excuses: Callable[[list[np.ndarray]], bool] = lambda so_far: False) -> list[np.ndarray]:
        """E_problem = Σ |f(x with one rounding of x_i) - f(x)| + |f(c rounded) - f(c)| + u |f(x)|, entry by entry.

        The sum is over every argument's entries, and c are the constants of the program, which a computation in the
        format has rounded to it. To first order the sum is u Σ |x_i| |∂f/∂x_i|. Each term is computed once.

        Args:
            excuses: whether what has been summed so far is enough, so that the rest need not be known.
        """
        mp = context()
        with mp.workprec(self._bits):
            total = [_as_float64(_distance(y, np.zeros_like(y))) * self.precision.u for y in self._exact]
            given, near = [numbers_of(mp, x) for x in self.args], Remembered(mp)
            for term, move in enumerate(self._moves(given)):
                if term == len(self._sums):
                    pairs = zip(total, self._exact, self._moved(near, given, move), strict=True)
                    self._sums.append([so_far + _as_float64(_distance(y, other)) for so_far, y, other in pairs])
                total = self._sums[term]
                if excuses(total):
                    break
        return total

    def _moves(self, given: Sequence[np.ndarray]) -> Iterator[Move | None]:
        """The numbers that are rounded, one at a time, each by its argument and place; None for all constants."""
        for number, x in enumerate(given):
            for place in np.ndindex(*x.shape) if x.dtype == object else ():
                if x[place] != 0 and context().isfinite(x[place]):
                    yield number, place
        if self.precision is not self.precision.double:
            yield None

    def _moved(self, near: Remembered, given: Sequence[np.ndarray], move: Move | None) -> list[np.ndarray]:
        if move is None:
            return evaluate(near, self.program, given, self.precision.rounded)
        number, place = move
        moved = given[number].copy()
        moved[place] = moved[place] * (1 + context().mpf(self.precision.u))
        return evaluate(near, self.program, [*given[:number], moved, *given[number + 1 :]])


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.frompyfunc(lambda a, b: abs(a - b), 2, 1)(x, y), object)


def _as_float64(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NumPy 2.0 warns of a NaN among Python's numbers
        return np.asarray(x, np.float64)


def exact_values(program: core.ClosedJaxpr, args: Sequence[np.ndarray]) -> list[Any]:
    """The exact results of a program at float64 arguments, as arrays of mpmath's numbers."""
    return exact(program, args, float(np.finfo(np.float64).tiny)).values
