"""A program as one list of equations, without calls and loops, for whoever follows it backwards."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from parity_tests.harness.language.calls import closed
from parity_tests.harness.language.interpret import Domain, interpret, operands_of_scan
from parity_tests.harness.language.live import live
from parity_tests.harness.language.steps import Step
from parity_tests.harness.numbers.tolerances import TO_TOLERANCE
from parity_tests.harness.rounding.regrouped import is_recurrence

# The result of an iteration that ends at a tolerance has errors that are no roundings.
_NOT_UNROLLED = frozenset({"cond", "while", "custom_linear_solve", TO_TOLERANCE})


class NotUnrolled(Exception):
    """Raised where a program has branches, a `while`, or a linear recurrence, which may be added up in groups."""


@functools.lru_cache(maxsize=256)
def unrolled(program: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same program with its calls inlined and each step of its scans written out.

    Raises:
        NotUnrolled: it has another kind of control flow.
    """
    shapes = [jax.ShapeDtypeStruct(*_shape(x)) for x in program.jaxpr.invars]
    return live(jax.make_jaxpr(lambda *args: interpret(program, args, _Traced()))(*shapes))


class _Traced(Domain[Any, Step]):
    """Numbers of JAX, which traces what is done to them."""

    def constant(self, x: Any) -> Any:
        """A constant as it is."""
        return x

    def apply(self, step: Step, operands: list[Any]) -> Sequence[Any]:
        """The results of an equation."""
        y = step.eqn.primitive.bind(*operands, **step.eqn.params)
        return y if step.many else [y]

    def run(self, step: Step, operands: list[Any], known: Mapping[core.Var, Any]) -> Sequence[Any]:
        """The results of an equation of whatever kind.

        Raises:
            NotUnrolled: it is no call, and no scan but a recurrence.
        """
        if step.name in _NOT_UNROLLED or (step.name == "scan" and _may_be_regrouped(step.eqn)):
            raise NotUnrolled
        return super().run(step, operands, known)

    def entry(self, x: Any, i: int) -> Any:
        """One entry along the first axis."""
        return jax.lax.index_in_dim(x, i, keepdims=False)

    def stacked(self, rows: Sequence[Any], result: core.Var) -> Any:
        """The entries of all steps of a loop."""
        return jnp.stack(rows) if rows else jnp.zeros(*_shape(result))


def _may_be_regrouped(eqn: core.JaxprEqn) -> bool:
    """True of a scan that is a linear recurrence of several steps."""
    _, carry, _ = operands_of_scan(eqn.params, eqn.invars)
    return bool(carry) and eqn.params["length"] > 1 and is_recurrence(closed(eqn.params["jaxpr"]).jaxpr)


def _shape(atom: Any) -> tuple[tuple[int, ...], Any]:
    return atom.aval.shape, atom.aval.dtype
