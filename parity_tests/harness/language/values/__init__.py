"""Float64 in NumPy, the domain of the oracle's values: `evaluate` runs a program, `primitives` has the equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.calls import CONTROL_FLOW
from parity_tests.harness.language.interpret import Domain, interpret
from parity_tests.harness.language.jaxprs import has_primitive
from parity_tests.harness.language.values.steps import Step, steps_of
from parity_tests.harness.numbers.formats import Precision

Seen = Callable[[core.JaxprEqn, Sequence[np.ndarray]], None]


class Values(Domain[np.ndarray, Step]):
    """Arrays of NumPy.

    Args:
        stored: makes of each constant, and of each result of an equation, the number that is kept.
        seen: called with each equation that runs no other program, and its results.
    """

    def __init__(self, stored: Callable[[Any], np.ndarray] = np.asarray, seen: Seen = lambda eqn, y: None) -> None:
        self._stored, self._seen = stored, seen

    def steps(self, jaxpr: core.Jaxpr) -> Sequence[Step]:
        """The equations of a program, with the functions that compute them."""
        return steps_of(jaxpr)

    def constant(self, x: Any) -> np.ndarray:
        """A constant, as it is stored."""
        return self._stored(x)

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation, as they are stored."""
        y = step.evaluate(*operands)
        y = y if step.many else [y]
        self._seen(step.eqn, y)
        return [*map(self._stored, y)]


def evaluate(program: core.ClosedJaxpr, *args: np.ndarray, seen: Seen = lambda eqn, y: None) -> list[np.ndarray]:
    """The outputs of a jaxpr at these arguments, equation by equation; `seen`: see `Values`."""
    with np.errstate(all="ignore"):
        return interpret(program, args, Values(seen=seen))


def evaluate_rounded(program: core.ClosedJaxpr, args: Sequence[np.ndarray], p: Precision) -> list[np.ndarray] | None:
    """The outputs of a jaxpr if each operation's result and each constant is rounded to a format of real numbers.

    None if it has loops or branches.
    """
    if has_primitive(program.jaxpr, tuple(CONTROL_FLOW)):
        return None

    def rounded(x: Any) -> np.ndarray:
        x = np.asarray(x)
        return p.rounded(x) if x.dtype == np.float64 else x

    with np.errstate(all="ignore"):
        return interpret(program, args, Values(stored=rounded))
