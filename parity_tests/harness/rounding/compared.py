"""Which equations go one way or another by the order of two real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.registry import Kind, has


def is_real(atom: Any) -> bool:
    """Return whether a variable or literal is of float64."""
    return getattr(atom.aval, "dtype", None) == np.float64


def compared(eqn: core.JaxprEqn) -> list[tuple[Any, Any]]:
    """The pairs of variables by whose order an equation goes; None stands for 0."""
    x = eqn.invars
    if not has(eqn.primitive.name, Kind.COMPARES) or not any(map(is_real, x)):
        return []
    if len(x) == 1:  # with what it takes of all along axes, or with zero
        return [(x[0], eqn.outvars[0] if "axes" in eqn.params else None)]
    return [(x[0], x[1])] if len(x) == 2 else [(x[1], x[0]), (x[1], x[2])]
