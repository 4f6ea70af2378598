"""Runs of a program in a short format, as right code would compute it: every result rounded, to nearest or at random.

A sum is added up in a wider format and rounded once, but for a scatter-add, which is added up where it is stored.

Stochastic rounding replaces a number by one of its two neighbours in the format, with the probabilities that make its
mean exact. What the format holds stays as it is, as with rounding to nearest; the error has no direction, and two runs
round independently. Their errors therefore have the size, the distribution over the entries and the correlations (a
number that is used often is rounded once) of those that a right computation in the format makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import Domain, interpret
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.indexing import addressed, may_combine
from parity_tests.harness.rounding.steps import Step, plan_of


@dataclass(frozen=True)
class StochasticRounding:
    """Rounds to a format of real numbers at random; what is beyond its largest number, or not finite, not at all."""

    precision: Precision
    rng: np.random.Generator

    def __call__(self, x: Any) -> np.ndarray:
        """The number, or an array of numbers, rounded; what is no float64 as it is."""
        x = np.asarray(x)
        if x.dtype != np.float64:
            return x
        spacing = self.precision.spacing(x)
        steps = x / spacing
        below = np.floor(steps)
        exact = below == steps
        if exact.all():
            return x
        up = self.rng.random(x.shape, np.float32) < steps - below
        return np.where(exact | ~np.isfinite(x), x, (below + up) * spacing)

    def by_logarithm(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A quotient y = a / s as exp(log a - log s) would have it: see `rounding.bounds`; alike for equal s."""
        values, place = np.unique(s, return_inverse=True)
        change = 2 * self.precision.u * np.abs(np.log(np.abs(values))) * self.rng.uniform(-1, 1, values.shape)
        return _times_exp(y, change[place.reshape(s.shape)])


@dataclass(frozen=True)
class RoundingToNearest:
    """Rounds to a format of real numbers as hardware does: what it does to numbers in the same place is no chance."""

    precision: Precision

    def __call__(self, x: Any) -> np.ndarray:
        """The number, or an array of numbers, rounded; what is no float64 as it is."""
        x = np.asarray(x)
        return self.precision.rounded(x) if x.dtype == np.float64 else x

    def by_logarithm(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A quotient y = a / s as exp(log a - log s) would have it: see `rounding.bounds`."""
        logarithm = np.log(np.abs(s))
        return _times_exp(y, logarithm - self.precision.rounded(logarithm))


def _times_exp(y: np.ndarray, change: np.ndarray) -> np.ndarray:
    return y * np.exp(np.where(np.isfinite(change), change, 0.0))


class AsItIs:
    """Rounds nothing."""

    def __call__(self, x: Any) -> np.ndarray:
        """The number, or an array of numbers."""
        return np.asarray(x)

    def by_logarithm(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A quotient."""
        return y


Rounding = StochasticRounding | RoundingToNearest | AsItIs


class Everywhere:
    """Every constant is rounded, and the result of every equation."""

    constants = True

    def at(self, eqn: core.JaxprEqn, fixed: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which operands of an equation are rounded, and whether its results are; `fixed`: the constants."""
        return [False] * len(fixed), True

    def within(self, eqn: core.JaxprEqn) -> Where:
        """Return where in the steps of a loop, or in what an equation calls."""
        return self


@dataclass(frozen=True)
class Beside:
    """Results, but for what is seen to be computed in float32; and whatever is loaded, as if it had been stored.

    Attributes:
        spared: the variables that are not rounded.
    """

    spared: frozenset[core.Var]
    constants = False

    def at(self, eqn: core.JaxprEqn, fixed: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which operands of an equation are rounded, and whether its results are; `fixed`: the constants."""
        if self.spared.issuperset(eqn.outvars):
            return [False] * len(fixed), False
        return [True] * len(fixed), True

    def within(self, eqn: core.JaxprEqn) -> Where:
        """Return where in the steps of a loop, or in what an equation calls."""
        return NOWHERE if self.spared.issuperset(eqn.outvars) else self


@dataclass(frozen=True)
class OfConstants:
    """Operands computed from constants alone, rounded where they meet other numbers; nothing if not `rounds`."""

    rounds: bool = True
    constants = False

    def at(self, eqn: core.JaxprEqn, fixed: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which operands of an equation are rounded, and whether its results are; `fixed`: the constants."""
        return [is_fixed and self.rounds and not all(fixed) for is_fixed in fixed], False

    def within(self, eqn: core.JaxprEqn) -> Where:
        """Return where in the steps of a loop, or in what an equation calls."""
        return self


Where = Everywhere | Beside | OfConstants
EVERYWHERE, NOWHERE = Everywhere(), OfConstants(rounds=False)


def simulated(
    program: core.ClosedJaxpr, args: Sequence[np.ndarray], stored: Rounding, where: Where = EVERYWHERE
) -> list[np.ndarray]:
    """The outputs of a program at float64 arguments if each constant and each operation's result is rounded.

    Loops are run step by step.
    """
    with np.errstate(all="ignore"):
        return interpret(program, args, _Simulated(stored, where))


class _Simulated(Domain[np.ndarray, Step]):
    """Float64 numbers, rounded where a version of the program would store them."""

    def __init__(self, stored: Rounding, where: Where) -> None:
        self._stored, self._where = stored, where

    def steps(self, jaxpr: core.Jaxpr) -> Sequence[Step]:
        """The equations of a program, with which of them divide by a number that it has the logarithm of."""
        return plan_of(jaxpr).steps

    def constant(self, x: Any) -> np.ndarray:
        """A constant, rounded if constants are."""
        return self._stored(x) if self._where.constants else np.asarray(x)

    def run(self, step: Step, operands: list[np.ndarray], known: Mapping[core.Var, np.ndarray]) -> Sequence:
        """The results of an equation of whatever kind, after those of its operands that are stored were rounded."""
        takes, _ = self._where.at(step.eqn, step.fixed)
        x = [self._stored(a) if rounds else a for a, rounds in zip(operands, takes, strict=True)]
        y = super().run(step, x, known)
        return [self._result(step).by_logarithm(x[1], y[0])] if step.has_logarithm else y

    def apply(self, step: Step, operands: list[np.ndarray]) -> list[np.ndarray]:
        """The results of an equation, rounded."""
        eqn, stored = step.eqn, self._result(step)
        if step.name == "scatter-add" and may_combine(eqn, operands):
            x, indices, updates = operands
            return [_scattered_sum(x, *addressed(x, indices, updates, **eqn.params), stored)]
        y = evaluated(eqn, *operands)
        return [stored(value) for value in (y if step.many else [y])]

    def within(self, step: Step) -> _Simulated:
        """In what an equation runs, numbers are rounded in other places."""
        return _Simulated(self._stored, self._where.within(step.eqn))

    def _result(self, step: Step) -> Rounding:
        """How the results of an equation are rounded."""
        return self._stored if self._where.at(step.eqn, step.fixed)[1] else AsItIs()


def _scattered_sum(x: np.ndarray, positions: np.ndarray, updates: np.ndarray, stored: Rounding) -> np.ndarray:
    """Added up where it is stored, as `primitives.indexing` bounds it: every partial sum is rounded."""
    y = x.flatten()
    by_position = np.argsort(positions, kind="stable")
    at, update = positions[by_position], updates[by_position]
    _, first, count = np.unique(at, return_index=True, return_counts=True)
    for place in range(int(count.max(initial=0))):  # the first update of every entry, then the second
        following = first[count > place] + place
        y[at[following]] = stored(y[at[following]] + update[following])
    return y.reshape(x.shape)
