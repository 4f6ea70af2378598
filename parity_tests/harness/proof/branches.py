"""Whether rounding may take another branch of a program than exact numbers do, of which a proof says nothing.

The program runs in float64, and with results rounded to the candidate's format: all, none and some, as of a candidate
that casts some of them. Each comparison, sign and whole number must be that of the run in hundreds of digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.language.live import live
from parity_tests.harness.language.values import Values
from parity_tests.harness.language.values.steps import Step
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.primitives.field.numbers import Unmodelled
from parity_tests.harness.primitives.registry import moves
from parity_tests.harness.proof.others import of_others
from parity_tests.harness.proof.run import Run, context, decisions

_BITS = 256
_SHARES = (0.0, 1.0, 0.5, 0.5)  # of the results that are rounded
_TAKES_ONE = ("max", "min", "reduce_max", "reduce_min", "sort", "clamp")  # a result is an operand, rounded already


class _Rounded(Values):
    """Values of which a share is rounded, and the decisions that are taken by them."""

    def __init__(self, precision: Precision, share: float, rng: np.random.Generator) -> None:
        super().__init__()
        self._precision, self._share, self._rng = precision, share, rng
        self.decisions = list[np.ndarray]()

    def run(self, step: Step, operands: list[np.ndarray], known: Mapping[core.Var, np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation, of whatever kind."""
        inner = of_others(step.eqn)
        return super().run(step, operands, known) if inner is None else self.call(step, inner, operands)

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation, rounded or not."""
        results = [np.asarray(y) for y in super().apply(step, operands)]
        self.decisions += decisions(step, operands, results)
        takes_one = moves(step.name) or step.name in _TAKES_ONE
        return results if takes_one else [self._stored_as(y) for y in results]

    def _stored_as(self, y: np.ndarray) -> np.ndarray:
        rounds = y.dtype == np.float64 and self._rng.random() < self._share
        return self._precision.rounded(y) if rounds else y


class _Exact(Run):
    """A run, and the decisions that are taken in it."""

    def __init__(self, program: core.ClosedJaxpr, args: Sequence[np.ndarray]) -> None:
        self.decisions = list[np.ndarray]()
        super().__init__(context(_BITS), program, args)

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation."""
        results = super().apply(step, operands)
        every = decisions(step, operands, results)
        self.decisions += [np.asarray(y, float) if y.dtype == object else y for y in every]
        return results


def check_branches(program: core.ClosedJaxpr, args: Sequence[np.ndarray], precision: Precision) -> None:
    """Check that rounding to a format takes no other branch.

    Raises:
        Unmodelled: it does.
    """
    program = live(program)
    exact = _Exact(program, args).decisions
    rng = np.random.default_rng(0)
    for share in _SHARES if precision.u > FLOAT64.u else _SHARES[:1]:
        rounded = _Rounded(precision, share, rng)
        with np.errstate(all="ignore"):
            interpret(program, args, rounded)
        same = len(exact) == len(rounded.decisions)
        if not same or not all(np.array_equal(x, y) for x, y in zip(exact, rounded.decisions, strict=True)):
            raise Unmodelled(f"where it compares numbers, rounding to {precision.name} may decide")
