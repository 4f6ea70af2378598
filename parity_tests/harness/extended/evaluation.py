"""The value of a jaxpr in numbers of mpmath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.language.calls import CONTROL_FLOW, called
from parity_tests.harness.language.interpret import Domain, interpret
from parity_tests.harness.language.jaxprs import subprograms
from parity_tests.harness.language.moves import places
from parity_tests.harness.language.steps import Step
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.registry import Exact, moves, record_of
from parity_tests.harness.primitives.value.evaluated import evaluated


def missing(program: core.ClosedJaxpr | core.Jaxpr) -> str | None:
    """The first primitive of a program that cannot be evaluated in extended precision; None if all can be."""
    for eqn in _equations(program):
        name, inner = eqn.primitive.name, called(eqn)
        if inner is not None or name in CONTROL_FLOW:
            subs = subprograms(eqn) if inner is None else [inner]
            found = next(filter(None, map(missing, subs)), None)
        else:
            found = None if _is_known(eqn) else name
        if found is not None:
            return found
    return None


def _equations(program: core.ClosedJaxpr | core.Jaxpr) -> Sequence[core.JaxprEqn]:
    return program.jaxpr.eqns if isinstance(program, core.ClosedJaxpr) else program.eqns


def _aval(x: core.Var | core.Literal) -> Any:
    return x.aval


def _is_known(eqn: core.JaxprEqn) -> bool:
    """True if a primitive can be evaluated: if it has a record, moves numbers, or has no floating-point operands."""
    every = [_aval(x).dtype for x in (*eqn.invars, *eqn.outvars)]
    if any(jnp.issubdtype(dtype, jnp.complexfloating) for dtype in every):
        return False
    real = any(jnp.issubdtype(_aval(x).dtype, jnp.inexact) for x in eqn.invars)
    return not real or _rule_of(eqn.primitive.name) is not None or moves(eqn.primitive.name)


def _rule_of(name: str) -> Exact | None:
    record = record_of(name)
    return None if record is None else record.exact


def work(program: core.ClosedJaxpr | core.Jaxpr) -> int:
    """The number of entries that all equations of a program have, of a loop those of all steps; `while` counts once."""
    total = 0
    for eqn in _equations(program):
        inner = sum(work(sub) for sub in subprograms(eqn))
        own = sum(int(np.prod(_aval(x).shape)) for x in eqn.outvars)
        total += own + inner * (eqn.params["length"] if eqn.primitive.name == "scan" else 1)
    return total


def numbers_of(mp: Any, x: np.ndarray) -> np.ndarray:
    """Floating-point numbers as exactly these numbers of an mpmath context; integers and booleans as they are."""
    x = np.asarray(x)
    if x.dtype == object or not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    y = np.empty(x.shape, object)
    for place in np.ndindex(*x.shape):
        y[place] = mp.mpf(float(x[place]))
    return y


def evaluate(mp: Any, program: core.ClosedJaxpr, args: Sequence[np.ndarray], constant: Any = None) -> list[np.ndarray]:
    """The outputs of a jaxpr, with the precision that an mpmath context has.

    Args:
        mp: the context.
        program: what is evaluated.
        args: its arguments: floating-point numbers as arrays of float64 or of this context's numbers.
        constant: what is to be made of the arrays of its constants first, by default nothing.

    Raises:
        NoRule: it has a primitive without an exact value.
    """
    given = [numbers_of(mp, x) for x in args]
    with np.errstate(all="ignore"):
        return interpret(program, given, Extended(mp, constant or (lambda x: x)))


class Extended(Domain[np.ndarray, Step]):
    """Numbers of an mpmath context, in arrays of objects; integers and booleans as NumPy has them.

    Args:
        mp: the context.
        constant: what is to be made of the arrays of constants first.
    """

    def __init__(self, mp: Any, constant: Callable[[np.ndarray], np.ndarray]) -> None:
        self._mp, self._constant = mp, constant

    def constant(self, x: Any) -> np.ndarray:
        """A constant in this context."""
        x = np.asarray(x)
        return numbers_of(self._mp, self._constant(x) if x.dtype == np.float64 else x)

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation.

        Raises:
            NoRule: its primitive has no exact value.
        """
        y = _applied(self._mp, step.eqn, operands)
        return y if step.many else [y]

    def stacked(self, rows: Sequence[np.ndarray], result: core.Var) -> np.ndarray:
        """The entries of all steps of a loop."""
        return np.stack(rows) if rows else np.empty(_aval(result).shape, object)


def _applied(mp: Any, eqn: core.JaxprEqn, x: list[np.ndarray]) -> Any:
    name = eqn.primitive.name
    if not any(a.dtype == object for a in x):
        y = evaluated(eqn, *x)
        many = eqn.primitive.multiple_results
        return [numbers_of(mp, np.asarray(a)) for a in y] if many else numbers_of(mp, np.asarray(y))
    if moves(name):
        return _moved(mp, eqn, x)
    rule = _rule_of(name)
    if rule is None:
        raise NoRule(name, "exact")
    return rule(mp, eqn, *x)


def _moved(mp: Any, eqn: core.JaxprEqn, x: list[np.ndarray]) -> Any:
    """The result of what moves numbers: it is applied to their places, which then say where each comes from."""
    moved = [a.dtype == object for a in x]
    every = [number for a, is_moved in zip(x, moved, strict=True) if is_moved for number in a.ravel()]

    def taken(at: np.ndarray) -> np.ndarray:
        y = np.empty(at.shape, object)
        for i, place in np.ndenumerate(at):  # NaN is what `gather` has outside of the array
            y[i] = mp.nan if np.isnan(place) else every[int(place)]
        return y

    results = [*map(taken, places(eqn, x, moved))]
    return results if eqn.primitive.multiple_results else results[0]
