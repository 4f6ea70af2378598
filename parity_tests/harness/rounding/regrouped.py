"""Linear recurrences in groups: parallel scans.

A recurrence hₜ = aₜ hₜ₋₁ + bₜ need not be computed step by step. Kernels add up groups of steps, and groups of groups,
in 2 log₂ T rounds; whoever differentiates such a scan adds up, of a product λₜ hₜ₋₁ of two recurrences, the products of
their groups. A partial sum is no larger than the sum of the magnitudes of all its terms, which is what the recurrence
gives for the magnitudes of its operands, and may be far larger than the whole sum, in which terms cancel. Each of these
rounds loses a rounding of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.calls import called
from parity_tests.harness.language.interpret import Domain
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.rounding.steps import Step, plan_of

Pair = tuple[np.ndarray, np.ndarray]

_ADDS_OR_MULTIPLIES = Kind.ADDS | Kind.LINEAR | Kind.BILINEAR | Kind.MOVES


class Regrouped(tuple[np.ndarray, np.ndarray]):
    """A value and its bound, with the sum of the magnitudes of the terms that the value is a sum of."""

    magnitudes: np.ndarray

    def __new__(cls, pair: Pair, magnitudes: np.ndarray) -> Regrouped:
        """Make one from a pair."""
        made = super().__new__(cls, pair)
        made.magnitudes = magnitudes
        return made


def magnitudes_of(pair: Pair) -> np.ndarray:
    """Return the sum of the magnitudes of a value's terms; its own magnitude, where they are not known."""
    return pair.magnitudes if isinstance(pair, Regrouped) else np.abs(pair[0])


def is_recurrence(jaxpr: core.Jaxpr) -> bool:
    """Return whether all that a step does is to add and to multiply."""
    for eqn in jaxpr.eqns:
        inner = called(eqn)
        if not is_recurrence(inner.jaxpr) if inner is not None else not has(eqn.primitive.name, _ADDS_OR_MULTIPLIES):
            return False
    return True


class Magnitudes(Domain[np.ndarray, Step]):
    """Sums of the magnitudes of terms, in the steps of a recurrence."""

    def steps(self, jaxpr: core.Jaxpr) -> Sequence[Step]:
        """The equations of a program, with how each is evaluated."""
        return plan_of(jaxpr).steps

    def constant(self, x: Any) -> np.ndarray:
        """The magnitude of a constant."""
        return np.abs(np.asarray(x))

    def apply(self, step: Step, operands: list[np.ndarray]) -> list[np.ndarray]:
        """Return the magnitudes of the results of an equation in a recurrence, from those of its operands."""
        return [operands[0] + operands[1] if step.adds else np.abs(step.evaluate(*operands))]


def allowance(magnitudes: np.ndarray, steps: int, precision: Precision) -> np.ndarray:
    """Return what the rounds of a scan in groups lose of sums with these magnitudes."""
    rounds = 2 * math.ceil(math.log2(steps)) + 1 if steps > 1 else 0
    return precision.gamma(rounds) * magnitudes * (precision.u / precision.u_acc)
