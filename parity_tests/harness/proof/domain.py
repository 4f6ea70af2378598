"""Finite fields as a domain of `language.interpret`: what is proved holds on the branches of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import Domain
from parity_tests.harness.language.moves import places
from parity_tests.harness.language.steps import Step
from parity_tests.harness.primitives.field.numbers import Model, Number, Operand, Unmodelled, is_finite
from parity_tests.harness.primitives.field.rules import chosen, of_each, rule_of
from parity_tests.harness.primitives.registry import Kind, has, moves
from parity_tests.harness.proof.others import of_others
from parity_tests.harness.proof.run import Run


class Fields(Domain[Operand, Step]):
    """The domain of a model's numbers, along a run of the same program; integers and booleans are NumPy's."""

    def __init__(self, model: Model, run: Run) -> None:
        self._model, self._run, self._steps = model, run, iter(run.steps_taken)
        self.count = 0  # of equations

    def constant(self, x: Any) -> Operand:
        """The numbers that floats stand for."""
        x = np.asarray(x)
        return self._model.constants(x, self._run.constant(x)) if x.dtype.kind == "f" else x

    def run(self, step: Step, operands: list[Operand], known: Mapping[core.Var, Operand]) -> Sequence[Operand]:
        """The results of an equation, of whatever kind."""
        inner = of_others(step.eqn)
        return super().run(step, operands, known) if inner is None else self.call(step, inner, operands)

    def apply(self, step: Step, operands: list[Operand]) -> Sequence[Operand]:
        """The results of an equation.

        Raises:
            Unmodelled: there is no rule for it.
            NoInverse: it divides by zero, or takes the root of what is no square, at this point.
        """
        eqn, name, results = step.eqn, step.name, next(self._steps)
        self.count += 1
        known = has(name, Kind.INTEGERS) or not any(isinstance(x, Number) for x in operands)
        if known or all(a.dtype != object for a in results):
            return [self._known(a) if a.dtype == object else a for a in results]
        if moves(name):
            return self._moved(eqn, operands, results)
        pairs = zip(rule_of(name)(self._model, eqn, *operands), results, strict=True)
        made = [Number(pair, real) if real.dtype == object else real for pair, real in pairs]
        return [self._at_infinity(operands, y) for y in made] if has(name, Kind.LIMIT) else made

    def _known(self, real: np.ndarray) -> Number:
        """Numbers of the run that are floats, as integers are."""
        x = real.astype(float)
        if any(a != b and a == a for a, b in zip(real.ravel(), x.ravel(), strict=True)):
            raise Unmodelled("integers that no float64 is")
        return self._model.constants(x, real)

    def _at_infinity(self, operands: Sequence[Operand], y: Operand) -> Operand:
        """The limit is a number of the run: exp(-∞) is 0."""
        assert isinstance(y, Number)
        beyond = np.zeros(y.real.shape, bool)
        for x in operands:
            if isinstance(x, Number) and x.real.shape == y.real.shape:
                beyond |= ~is_finite(x.real)
        if not (beyond & is_finite(y.real)).any():
            return y
        limit = np.where(beyond, y.real, 0)
        return chosen(beyond, [y, self._known(limit)], y.real)

    def _moved(self, eqn: core.JaxprEqn, operands: list[Operand], reals: list[np.ndarray]) -> list[Operand]:
        moved = [isinstance(x, Number) for x in operands]
        found = places(eqn, [x.real if isinstance(x, Number) else x for x in operands], moved)
        if any(np.isnan(at).any() for at in found):
            raise Unmodelled("an index outside of an array")

        numbers = [x for x in operands if isinstance(x, Number)]
        every = Number(of_each(numbers, lambda residues: np.concatenate([r.ravel() for r in residues])), reals[0])
        taken = (every.each(lambda r, at=at: r[at.astype(int)]) for at in found)
        return [Number(pair, real) for pair, real in zip(taken, reals, strict=True)]

    def stacked(self, rows: Sequence[Operand], result: core.Var) -> Operand:
        """The entries of all steps of a loop."""
        if not rows:
            aval: Any = result.aval
            return self.constant(np.zeros(aval.shape, aval.dtype))
        numbers = [x for x in rows if isinstance(x, Number)]
        if not numbers:
            return np.stack([np.asarray(x) for x in rows])
        return Number(of_each(numbers, np.stack), np.stack([x.real for x in numbers]))

    def where(self, which: np.ndarray, yes: Operand, no: Operand) -> Operand:
        """The entries of `yes` where the condition of their example holds, else of `no`."""
        if not isinstance(yes, Number) or not isinstance(no, Number):
            return super().where(which, yes, no)
        of_example = np.expand_dims(which, tuple(range(np.ndim(which), yes.real.ndim)))
        of_entry = np.broadcast_to(of_example, yes.real.shape)
        return chosen(of_entry, [no, yes], np.where(of_entry, yes.real, no.real))
