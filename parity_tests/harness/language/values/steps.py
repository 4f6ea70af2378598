"""The steps of a program with the functions of NumPy that compute them, found once for all runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core

from parity_tests.harness.language import steps
from parity_tests.harness.language.jaxprs import constants_of
from parity_tests.harness.primitives.registry import edition
from parity_tests.harness.primitives.value.evaluated import evaluator


@dataclass(frozen=True, slots=True)
class Step(steps.Step):
    """An equation of a program, with the function that computes it.

    Attributes:
        evaluate: (values of its operands) -> that of its result, or those of its results.
    """

    evaluate: Callable[..., Any]


def facts_of(eqn: core.JaxprEqn, constants: Collection[core.Var] = frozenset()) -> dict[str, Any]:
    """The attributes of the step of an equation, for whoever adds others; `constants`: those of its program."""
    facts = steps.facts_of(eqn, constants)
    return {**facts, "evaluate": evaluator(eqn, facts["real"])}


def steps_of(jaxpr: core.Jaxpr) -> Sequence[Step]:
    """The steps of a program, in its order."""
    return _steps_of(jaxpr, edition())


@functools.lru_cache(maxsize=1024)
def _steps_of(jaxpr: core.Jaxpr, of_records: int) -> Sequence[Step]:
    constants = constants_of(jaxpr.eqns, jaxpr.constvars)
    return tuple(Step(**facts_of(eqn, constants)) for eqn in jaxpr.eqns)
