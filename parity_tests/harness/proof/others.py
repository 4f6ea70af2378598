"""Primitives of other packages than JAX, by the functions that define them."""

from __future__ import annotations

import functools

import jax
from jax.extend import core

from parity_tests.harness.language.jaxprs import type_of


@functools.lru_cache(maxsize=1024)
def of_others(eqn: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """The program of an equation of another package; None if it is JAX's own, or cannot be traced without numbers."""
    module = getattr(eqn.primitive.impl, "__module__", None) or "jax"
    if module.partition(".")[0] in ("jax", "jaxlib", "functools"):
        return None
    try:
        return jax.make_jaxpr(functools.partial(eqn.primitive.impl, **eqn.params))(*map(type_of, eqn.invars))
    except Exception:  # of whatever kind: the function is somebody else's
        return None
