"""The equations of a program as steps: what an interpreter asks of each of them, found once for all runs."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.calls import called
from parity_tests.harness.language.jaxprs import constants_of

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
        many: True if its primitive has several results, or may have.
        real: True if all operands and results are float64.
        fixed: for each operand, True if the program computes it from its constants alone.
    """

    eqn: core.JaxprEqn
    name: str
    inner: core.ClosedJaxpr | None
    variables: tuple[core.Var | None, ...]
    has_literals: bool
    result: core.Var | None
    many: bool
    real: bool
    fixed: tuple[bool, ...]


def facts_of(eqn: core.JaxprEqn, constants: Collection[core.Var] = frozenset()) -> dict[str, Any]:
    """The attributes of the step of an equation, for whoever adds others; `constants`: those of its program."""
    variables = tuple(None if isinstance(atom, core.Literal) else atom for atom in eqn.invars)
    return {
        "eqn": eqn,
        "name": eqn.primitive.name,
        "inner": called(eqn),
        "variables": variables,
        "has_literals": None in variables,
        "result": eqn.outvars[0] if len(eqn.outvars) == 1 else None,
        "many": eqn.primitive.multiple_results,
        "real": all(getattr(atom.aval, "dtype", None) == _FLOAT64 for atom in (*eqn.invars, *eqn.outvars)),
        "fixed": tuple(isinstance(x, core.Literal) or x in constants for x in eqn.invars),
    }


@functools.lru_cache(maxsize=1024)
def steps_of(jaxpr: core.Jaxpr) -> Sequence[Step]:
    """The steps of a program, in its order."""
    constants = constants_of(jaxpr.eqns, jaxpr.constvars)
    return tuple(Step(**facts_of(eqn, constants)) for eqn in jaxpr.eqns)
