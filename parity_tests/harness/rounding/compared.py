"""Which equations go one way or another by the order of two real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend import core

TAKE_ONE_OF_ALL = frozenset({"reduce_max", "reduce_min"})
_OF_TWO = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "max", "min"})
_TURN_AT_ZERO = frozenset({"abs", "sign"})


def is_real(atom: Any) -> bool:
    """Return whether a variable or literal is of float64."""
    return getattr(atom.aval, "dtype", None) == np.float64


def compared(eqn: core.JaxprEqn) -> list[tuple[Any, Any]]:
    """The pairs of variables by whose order an equation goes; None stands for 0."""
    name, x = eqn.primitive.name.removesuffix("_to"), eqn.invars
    if not any(map(is_real, x)):
        return []
    if name in _OF_TWO:
        return [(x[0], x[1])]
    if name == "clamp":
        return [(x[1], x[0]), (x[1], x[2])]
    if name in TAKE_ONE_OF_ALL:
        return [(x[0], eqn.outvars[0])]
    return [(x[0], None)] if name in _TURN_AT_ZERO else []
