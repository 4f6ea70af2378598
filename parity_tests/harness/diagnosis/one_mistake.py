"""The oracle's program with one mistake, as a person may have made it: what a wrong result is compared with.

A formula is written once more when its backward is written by hand: an operation is left out, a sum goes along another
axis, a sign is lost. Each equation of the oracle's program is changed in these ways, one at a time, and the program is
run with bounds as the oracle's own is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.addends import Term, formulas
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.rounding.bounds import INPUT, Bounds, Pair
from parity_tests.harness.rounding.steps import Step, plan_of

_SECONDS = 2.0  # after which no further mistake is tried
_MOST = 400  # equations of a program in which a mistake is looked for
_REFUSALS = (NoRule, NotFloat64, ValueError, TypeError, IndexError)

# The results of an equation with a mistake, of its operands and of its right results.
Edit = Callable[[Sequence[Pair], Pair], Pair]


@dataclass(frozen=True)
class Mistake:
    """A mistake in one equation.

    `equation`: its identity. `text`: "with x in place of tanh(x)". `edit`: its result. `axis`: of a sum along another
    axis, which has another shape, the one along which it should go.
    """

    equation: int
    text: str
    edit: Edit
    axis: int | None = None


def mistakes(
    closed: core.ClosedJaxpr, args: Sequence[np.ndarray], labels: Sequence[str], named: Sequence[Term]
) -> Iterator[Mistake]:
    """Yield the mistakes in a program, whose arguments are called by their labels."""
    texts = formulas(closed, args, labels, named)
    equations = list(_equations(closed.jaxpr))
    for eqn in equations if len(equations) <= _MOST else ():
        if id(eqn) in texts and len(eqn.outvars) == 1:
            yield from _of(eqn, *texts[id(eqn)])


def outcomes(
    closed: core.ClosedJaxpr, args: Sequence[np.ndarray], found: Iterator[Mistake], result: int, precision: Precision
) -> Iterator[tuple[Mistake, Pair]]:
    """Yield a result of the program, with its bound, under each mistake under which it can be run."""
    until = time.monotonic() + _SECONDS
    pairs = [(np.asarray(x), np.where(np.isfinite(x), INPUT * precision.u * np.abs(x), 0.0)) for x in args]
    for mistake in found:
        if time.monotonic() > until:
            return
        try:
            pair = interpret(closed, pairs, _Mistaken(precision, mistake))[result]
        except _REFUSALS:  # the arrays do not fit together
            continue
        if np.shape(pair[0]) == _shape(closed.jaxpr.outvars[result]):
            yield mistake, pair


def _shape(atom: Any) -> tuple[int, ...]:
    """The shape of an operand or result, which is always an array here."""
    return atom.aval.shape


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for step in plan_of(jaxpr).steps:
        if step.inner is not None:
            yield from _equations(step.inner.jaxpr)
        else:
            yield step.eqn


def _of(eqn: core.JaxprEqn, whole: str, operands: Sequence[str]) -> Iterator[Mistake]:
    """The mistakes in one equation, of this formula and with operands of these."""
    name, shape = eqn.primitive.name, _shape(eqn.outvars[0])

    def mistake(text: str, edit: Edit) -> Mistake:
        return Mistake(id(eqn), text, edit)

    if has(name, Kind.ADDS):
        a, b = operands
        yield mistake(f"without {b} in {whole}", lambda x, _: _spread(x[0], shape))
        yield mistake(f"without {a} in {whole}", lambda x, _: _spread(_minus(x[1]) if name == "sub" else x[1], shape))
        yield mistake(f"with the other sign of {b} in {whole}", lambda x, y: _with_the_other_sign(name, x, y))
    elif name == "mul":
        for i in (0, 1):
            text = f"without the factor {operands[1 - i]} of {operands[i]}"
            yield mistake(text, lambda x, _, i=i: _spread(x[i], shape))
    elif name == "div":
        yield mistake(f"without the division of {operands[0]} by {operands[1]}", lambda x, _: _spread(x[0], shape))
    elif name == "select_n":
        for i, text in ((1, "as if the condition never held"), (2, "as if the condition always held")):
            if len(operands) == 3:
                yield mistake(f"{text} in {whole}", lambda x, _, i=i: _spread(x[i], shape))
    elif name == "reduce_sum":
        axes = tuple(eqn.params["axes"])
        size = int(np.prod([_shape(eqn.invars[0])[axis] for axis in axes]))
        yield mistake(f"with the mean in place of {whole}", lambda _, y: (y[0] / size, y[1] / size))
        yield mistake(f"with the first entry in place of {whole}", lambda x, _: _first(x[0], axes))
        yield mistake(f"with the last entry in place of {whole}", lambda x, _: _first(_reversed(x[0], axes), axes))
        for other in range(len(_shape(eqn.invars[0]))) if len(axes) == 1 else ():
            if other not in axes and _shape(eqn.invars[0])[other]:
                along = f"along axis {other}, and not {axes[0]}, in place of {whole}"
                ratio = size / _shape(eqn.invars[0])[other]
                for what, factor in (("sum", 1.0), ("mean", ratio)):
                    edit = partial(_along, other, factor)
                    yield Mistake(id(eqn), f"with the {what} {along}", edit, axes[0])
    elif len(operands) == 1 and not has(name, Kind.MOVES) and _shape(eqn.invars[0]) == shape:
        text = f"without the sign of {whole}" if name == "neg" else f"with {operands[0]} in place of {whole}"
        yield mistake(text, lambda x, _: x[0])


def _spread(pair: Pair, shape: Sequence[int]) -> Pair:
    x, e = pair
    return np.broadcast_to(x, shape), np.broadcast_to(e, shape)


def _minus(pair: Pair) -> Pair:
    return -pair[0], pair[1]


def _with_the_other_sign(name: str, operands: Sequence[Pair], right: Pair) -> Pair:
    (a, _), (b, _) = operands
    return (a + b if name == "sub" else a - b), right[1]


def _along(axis: int, factor: float, operands: Sequence[Pair], right: Pair) -> Pair:
    """The sum along an axis, which is kept."""
    x, e = operands[0]
    rounding = x.shape[axis] * FLOAT64.u * np.abs(x)
    return factor * x.sum(axis, keepdims=True), factor * (e + rounding).sum(axis, keepdims=True)


def _first(pair: Pair, axes: tuple[int, ...]) -> Pair:
    index = tuple(0 if axis in axes else slice(None) for axis in range(pair[0].ndim))
    return pair[0][index], pair[1][index]


def _reversed(pair: Pair, axes: tuple[int, ...]) -> Pair:
    return np.flip(pair[0], axes), np.flip(pair[1], axes)


class _Mistaken(Bounds):
    """Values with bounds of a program in which one equation has a mistake."""

    def __init__(self, precision: Precision, mistake: Mistake) -> None:
        super().__init__(precision)
        self._mistake = mistake

    def steps(self, jaxpr: core.Jaxpr) -> Sequence[Step]:
        return plan_of(jaxpr).steps

    def call(self, step: Step, program: core.ClosedJaxpr, operands: list[Pair]) -> list[Pair]:
        return interpret(program, operands, self)

    def run(self, step: Step, operands: list[Pair], known: Mapping[core.Var, Pair]) -> Sequence[Pair]:
        """The results of an equation; one that is not as it should be goes on in a shape that can be broadcast."""
        mistake = self._mistake
        expected = [_shape(x) for x in step.eqn.invars]
        if mistake.axis is not None and step.inner is None and [np.shape(x) for x, _ in operands] != expected:
            return [self._of_another_shape(step, operands, mistake.axis)]
        results = self.with_losses(step, operands)
        return [mistake.edit(operands, results[0])] if id(step.eqn) == mistake.equation else results

    def _of_another_shape(self, step: Step, operands: list[Pair], axis: int) -> Pair:
        """The result where an operand has kept the axis that it should have lost, and has lost another one."""
        kept = max(np.ndim(x) for x, _ in operands)
        result = _shape(step.eqn.outvars[0])
        if has(step.name, Kind.MOVES) or (
            step.name == "reduce_sum" and math.prod(_shape(step.eqn.invars[0])) == math.prod(result)
        ):
            (pair,) = operands
            return _spread(pair, result) if len(result) == kept and result[axis] > 1 else pair
        aligned = []
        for (x, e), atom in zip(operands, step.eqn.invars, strict=True):
            missing = np.ndim(x) == kept - 1 and np.shape(x) == _shape(atom)
            aligned.append((np.expand_dims(x, axis), np.expand_dims(e, axis)) if missing and kept > 1 else (x, e))
        shape = np.broadcast_shapes(*(np.shape(x) for x, _ in aligned))
        return self.with_losses(step, [_spread(pair, shape) for pair in aligned])[0]
