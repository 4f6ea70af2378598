"""Exact results of a problem, and the error that it forces: how far one rounding of everything given moves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.extended.adaptive import context, exact
from parity_tests.harness.extended.evaluation import evaluate, numbers_of
from parity_tests.harness.extended.remembered import Remembered
from parity_tests.harness.numbers.formats import Precision


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
        format has rounded to it. To first order the sum is u Σ |x_i| |∂f/∂x_i|.

        Args:
            excuses: whether what has been summed so far is enough, so that the rest need not be known.
        """
        mp, u = context(), self.precision.u
        near = Remembered(mp)
        with mp.workprec(self._bits):
            total = [_as_float64(_distance(y, np.zeros_like(y))) * u for y in self._exact]
            given = [numbers_of(mp, x) for x in self.args]
            for number, x in enumerate(given):
                for place in np.ndindex(*x.shape) if x.dtype == object else ():
                    if x[place] == 0 or not mp.isfinite(x[place]):
                        continue
                    moved = x.copy()
                    moved[place] = x[place] * (1 + mp.mpf(u))
                    self._add(total, evaluate(near, self.program, [*given[:number], moved, *given[number + 1 :]]))
                    if excuses(total):
                        return total
            if self.precision is not self.precision.double:
                self._add(total, evaluate(near, self.program, given, self.precision.rounded))
        return total

    def _add(self, total: list[np.ndarray], moved: list[np.ndarray]) -> None:
        for i, (y, other) in enumerate(zip(self._exact, moved, strict=True)):
            total[i] = total[i] + _as_float64(_distance(y, other))


def _distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.frompyfunc(lambda a, b: abs(a - b), 2, 1)(x, y), object)


def _as_float64(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NumPy 2.0 warns of a NaN among Python's numbers
        return np.asarray(x, np.float64)


def exact_values(program: core.ClosedJaxpr, args: Sequence[np.ndarray]) -> list[Any]:
    """The exact results of a program at float64 arguments, as arrays of mpmath's numbers."""
    return exact(program, args, float(np.finfo(np.float64).tiny)).values
