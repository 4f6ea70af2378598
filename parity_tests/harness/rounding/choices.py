"""Where a program goes one way or another by the order of two numbers: its comparisons, and its kinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.rounding.compared import compared, is_real
from parity_tests.harness.rounding.tape import Asked, Tape


@dataclass(frozen=True)
class Choice:
    """The differences by whose signs an equation goes, where rounding may change them.

    Attributes:
        asked: the differences, whose errors are asked for.
        apart: how large each is.
        result: what the equation makes.
        places: for each difference the entry of it that goes by it.
        is_kink: True if the result does not jump.
    """

    asked: Asked
    apart: np.ndarray
    result: Any
    places: np.ndarray
    is_kink: bool

    def is_certain(self, errors: np.ndarray) -> bool:
        """Return whether no error of a difference is as large as that."""
        return bool((errors < self.apart).all())

    def crossed(self, errors: np.ndarray) -> np.ndarray:
        """The errors of differences whose signs they may change; 0 of the others."""
        return np.where(errors < self.apart, 0.0, errors)


def choices(tape: Tape) -> Iterator[Choice]:
    """Yield the choices of a program that has run."""
    for eqn in tape.jaxpr.eqns:
        for x, y in compared(eqn):
            yield _choice(tape, eqn, x, y)


def _choice(tape: Tape, eqn: core.JaxprEqn, x: Any, y: Any) -> Choice:
    (a, of_a), (b, of_b) = (
        (tape.value(z), tape.running_of(z)) if z is not None else 2 * (np.zeros(()),) for z in (x, y)
    )
    at_a, at_b = (np.arange(value.size).reshape(value.shape) for value in (a, b))
    other = y
    (result,), is_kink = eqn.outvars, is_real(eqn.outvars[0]) and eqn.primitive.name != "sign"
    places = np.arange(tape.value(result).size).reshape(tape.value(result).shape)
    if y is result:  # one of all along axes
        axes = tuple(eqn.params["axes"])
        b, of_b, places = (np.expand_dims(each, axes) for each in (b, of_b, places))
        # The first of the largest in place of the result, which is charged with what is lost here.
        other, at_b = x, np.min(at_a, axes, initial=a.size, where=a == b, keepdims=True)
        itself = (a == b) & (np.count_nonzero(a == b, axis=axes, keepdims=True) == 1)
    else:
        # As `arithmetic` has it, an exact tie comes from the structure, and not by accident; at a kink it is one.
        itself = np.zeros(np.broadcast_shapes(a.shape, b.shape), bool) if is_kink else a == b
    apart = np.abs(a - b)
    # What has no bound is passed on as the rules have it; see `tape`.
    known = np.isfinite(tape.own_of(x)) & np.isfinite(np.zeros(()) if y is None else tape.own_of(y).reshape(b.shape))
    near = known & ~itself & (of_a + of_b > 0) & ~(apart > of_a + of_b)
    at_a, at_b, apart, places = (np.broadcast_to(each, near.shape)[near] for each in (at_a, at_b, apart, places))
    terms = [(x, at_a, 1.0)] if y is None else [(x, at_a, 1.0), (other, at_b, -1.0)]
    return Choice(Asked(terms, len(apart)), apart, result, places, is_kink)
