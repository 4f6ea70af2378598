"""The program that an equation calls."""

from __future__ import annotations

from jax.extend import core

from parity_tests.harness.language.spelled_out import spelled_out

CONTROL_FLOW = frozenset({"scan", "cond", "while", "custom_linear_solve"})
_COMBINING = ("reduce", "reduce_window")  # their jaxpr makes one entry of two, and is not called


def called(eqn: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """The jaxpr that a call runs (jit, custom_jvp_call, checkpoint, ...), or that an equation stands for; else None."""
    if eqn.primitive.name in CONTROL_FLOW:
        return None
    program = spelled_out(eqn)
    if program is not None or eqn.primitive.name in _COMBINING:
        return program
    for key in ("call_jaxpr", "jaxpr", "fun_jaxpr"):
        inner = eqn.params.get(key)
        if inner is not None and isinstance(inner, core.ClosedJaxpr | core.Jaxpr):
            return closed(inner)
    return None


def closed(jaxpr: core.ClosedJaxpr | core.Jaxpr) -> core.ClosedJaxpr:
    """The same with its constants, of which an open one has none."""
    return jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else core.ClosedJaxpr(jaxpr, ())
