"""An mpmath context for many evaluations of one program at arguments that differ in one number at a time.

What is computed of the other numbers is the same each time. A function of hundreds of bits takes a thousand times as
long as looking up its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Of a context, all that the records of primitives call.
_FUNCTIONS = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "besseli", "cbrt", "cos", "cosh", "digamma"),
        *("erf", "erfc", "erfinv", "exp", "expm1", "log", "log1p", "loggamma", "power", "psi", "sin", "sinh"),
        *("sqrt", "tan", "tanh"),
    )
)


class Remembered:
    """A context as long as its precision stays the same: each value of its functions is computed once."""

    def __init__(self, mp: Any) -> None:
        self._mp = mp

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._mp, name)
        if name in _FUNCTIONS:
            found = _remembering(found)
            setattr(self, name, found)
        return found


def _remembering(f: Callable) -> Callable:
    known: dict[tuple, Any] = {}

    def remembered(*x: Any) -> Any:
        key = tuple([getattr(a, "_mpf_", a) for a in x])  # the hash of mpmath's own numbers takes longer
        if key not in known:
            known[key] = f(*x)
        return known[key]

    return remembered
