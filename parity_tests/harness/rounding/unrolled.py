"""A program as one list of equations, without calls and loops, for whoever follows it backwards."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from parity_tests.harness.numbers.tolerances import TO_TOLERANCE
from parity_tests.harness.rounding.control_flow import operands_of_scan
from parity_tests.harness.rounding.evaluation import called, closed
from parity_tests.harness.rounding.live import live
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
    return live(jax.make_jaxpr(lambda *args: _run(program, args))(*shapes))


def _run(program: core.ClosedJaxpr, args: Sequence) -> list:
    jaxpr = program.jaxpr
    known = dict(zip(jaxpr.constvars, program.consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        x = [atom.val if isinstance(atom, core.Literal) else known[atom] for atom in eqn.invars]
        inner = called(eqn)
        if inner is not None:
            y = _run(inner, x)
        elif eqn.primitive.name == "scan":
            y = _steps(eqn, x)
        elif eqn.primitive.name in _NOT_UNROLLED:
            raise NotUnrolled
        else:
            y = eqn.primitive.bind(*x, **eqn.params)
            y = y if eqn.primitive.multiple_results else [y]
        known |= zip(eqn.outvars, y, strict=True)
    return [atom.val if isinstance(atom, core.Literal) else known[atom] for atom in jaxpr.outvars]


def _steps(eqn: core.JaxprEqn, x: Sequence) -> list:
    p, body = eqn.params, closed(eqn.params["jaxpr"])
    consts, carry, sequences = operands_of_scan(p, x)
    count, rows = len(carry), []
    if count and p["length"] > 1 and is_recurrence(body.jaxpr):
        raise NotUnrolled
    order = range(p["length"])
    for i in reversed(order) if p["reverse"] else order:
        outputs = _run(body, [*consts, *carry, *(jax.lax.index_in_dim(a, i, keepdims=False) for a in sequences)])
        carry = outputs[:count]
        rows.append(outputs[count:])
    rows = rows[::-1] if p["reverse"] else rows
    if not rows:
        return [*carry, *(jnp.zeros(*_shape(var)) for var in eqn.outvars[count:])]
    return [*carry, *(jnp.stack(column) for column in zip(*rows, strict=True))]


def _shape(atom: Any) -> tuple[tuple[int, ...], Any]:
    return atom.aval.shape, atom.aval.dtype
