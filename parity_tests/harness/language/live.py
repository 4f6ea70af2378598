"""The part of a program that its results depend on, in the steps of its loops, too.

A derivative that JAX has traced carries through its loops what nobody reads in the end: the number of the step, and the
cotangents of what is not differentiated. The error analysis runs loops step by step, and would bound all of that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jax.extend import core

from parity_tests.harness.language.calls import called, closed
from parity_tests.harness.language.interpret import operands_of_scan

# A right version may use a logarithm that the program has and the results do not depend on: `rounding.bounds`.
_STAYS = "log"


@functools.lru_cache(maxsize=256)
def live(program: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same program without the equations that its results do not depend on, but for logarithms.

    The variables that loops carry stay; one that nobody reads is passed on as it is.
    """
    jaxpr = program.jaxpr
    equations, _ = _needed(jaxpr, jaxpr.outvars)
    return core.ClosedJaxpr(jaxpr.replace(eqns=equations), program.consts)


def leading_to(jaxpr: core.Jaxpr, results: Sequence) -> set[core.Var]:
    """Return the variables that these results of a jaxpr are computed from, and they, in what it calls, too."""
    found, read = set[core.Var](), _variables(results)
    for eqn in reversed(jaxpr.eqns):
        used = [y in read for y in eqn.outvars]
        if not any(used):
            continue
        found.update(y for y, is_used in zip(eqn.outvars, used, strict=True) if is_used)
        inner = called(eqn)
        if inner is not None:
            found |= leading_to(
                inner.jaxpr, [y for y, is_used in zip(inner.jaxpr.outvars, used, strict=True) if is_used]
            )
        read |= _read_in_loop(eqn, used) if eqn.primitive.name == "scan" else _variables(eqn.invars)
    return found


def _read_in_loop(eqn: core.JaxprEqn, used: Sequence[bool]) -> set[core.Var]:
    """The operands that these results of a scan are computed from."""
    body = closed(eqn.params["jaxpr"]).jaxpr
    _, carry, _ = operands_of_scan(eqn.params, body.invars)
    used, before, reads = list(used), None, set[core.Var]()
    while used != before:
        before = list(used)
        wanted = [y for y, is_used in zip(body.outvars, used, strict=True) if is_used]
        inside = leading_to(body, wanted) | _variables(wanted)
        reads = inside.union(*(_variables(e.invars) for e in body.eqns if not inside.isdisjoint(e.outvars)))
        # In the next step, what this step reads is a result of the one before.
        used[: len(carry)] = [is_used or x in reads for x, is_used in zip(carry, used, strict=False)]
    return {x for x, y in zip(eqn.invars, body.invars, strict=True) if isinstance(x, core.Var) and y in reads}


def _needed(jaxpr: core.Jaxpr, results: Sequence) -> tuple[list[core.JaxprEqn], set[core.Var]]:
    """The equations of a jaxpr that these of its variables depend on, and all variables that these equations read."""
    equations: list[core.JaxprEqn] = []
    variables = _variables(results)
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or eqn.primitive.name == _STAYS or not variables.isdisjoint(eqn.outvars):
            equations.append(_loop(eqn, variables) if eqn.primitive.name == "scan" else eqn)
            variables |= _variables(eqn.invars)
    return equations[::-1], variables


def _variables(atoms: Sequence) -> set[core.Var]:
    return {x for x in atoms if isinstance(x, core.Var)}


def _loop(eqn: core.JaxprEqn, read: set[core.Var]) -> core.JaxprEqn:
    """A scan without what only its unread carried variables depend on; `read` are the variables read after it."""
    body = closed(eqn.params["jaxpr"])
    _, carry, _ = operands_of_scan(eqn.params, body.jaxpr.invars)
    count, results = len(carry), list(body.jaxpr.outvars)
    used = [x in read for x in eqn.outvars[:count]]
    while True:
        now = [y for y, is_used in zip(results[:count], used, strict=True) if is_used]
        equations, variables = _needed(body.jaxpr, [*now, *results[count:]])
        # In the next step, what this step reads is a result of the one before.
        wider = [is_used or x in variables for x, is_used in zip(carry, used, strict=True)]
        if wider == used:
            break
        used = wider
    passed_on = [y if is_used else x for x, y, is_used in zip(carry, results[:count], used, strict=True)]
    jaxpr = body.jaxpr.replace(eqns=equations, outvars=[*passed_on, *results[count:]])
    return eqn.replace(params={**eqn.params, "jaxpr": core.ClosedJaxpr(jaxpr, body.consts)})
