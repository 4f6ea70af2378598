"""What the error analysis knows of an equation before it knows any numbers, found once for all runs of a program.

A loop runs the same equations in every step, and an operator is judged at dozens of points by the same program. With
arrays as small as those of most samples, asking an equation takes as long as computing with it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jax.extend import core

from parity_tests.harness.rounding.evaluation import called

_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, slots=True)
class Step:
    """An equation of a program, with what follows from it alone.

    Attributes:
        eqn: the equation.
        name: of its primitive.
        inner: the jaxpr that it calls; None if it is no call.
        variables: its operands; None in place of a literal.
        has_literals: True if it has literals among its operands.
        result: its result; None if it has several.
        real: True if all operands and results are float64.
    """

    eqn: core.JaxprEqn
    name: str
    inner: core.ClosedJaxpr | None
    variables: tuple[core.Var | None, ...]
    has_literals: bool
    result: core.Var | None
    real: bool

    @classmethod
    def of(cls, eqn: core.JaxprEqn) -> Step:
        """Make the step of an equation."""
        variables = tuple(None if isinstance(atom, core.Literal) else atom for atom in eqn.invars)
        return cls(
            eqn,
            eqn.primitive.name,
            called(eqn),
            variables,
            None in variables,
            eqn.outvars[0] if len(eqn.outvars) == 1 else None,
            all(getattr(atom.aval, "dtype", None) == _FLOAT64 for atom in (*eqn.invars, *eqn.outvars)),
        )


@functools.lru_cache(maxsize=1024)
def steps_of(jaxpr: core.Jaxpr) -> tuple[Step, ...]:
    """Return the steps of all equations of a program, in their order."""
    return tuple(map(Step.of, jaxpr.eqns))
