"""The primitives of JAX that can be evaluated in extended precision: one record each, made where its rule is written.

    @elementwise("exp")
    def _exp(mp, x): ...

Floating-point operands are arrays of objects, the numbers of an mpmath context; integers and booleans are NumPy's. What
has no floating-point operands needs no record, nor does what only moves numbers: `evaluation` has both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

# (context, equation, operands...) -> the result, or a list of them if the primitive has several
Rule = Callable[..., Any]

_RULES: dict[str, Rule] = {}


def _registered(names: tuple[str, ...], rule: Rule) -> None:
    for name in names:
        if name in _RULES:
            raise ValueError(
                f"the JAX primitive {name!r} has a record of extended precision already; change that one instead of "
                "registering another"
            )
        _RULES[name] = rule


def primitive(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule of arrays, (context, equation, operands...) -> result or list of results, which is decorated.

    Raises:
        ValueError: one of the primitives has a record already.
    """

    def register(rule: Rule) -> Rule:
        _registered(names, rule)
        return rule

    return register


def elementwise(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule of single numbers, (context, numbers...) -> number or boolean, which is decorated.

    A pole, and what is not real, becomes NaN: it has no number that anything could be compared with.

    Raises:
        ValueError: one of the primitives has a record already.
    """

    def register(rule: Rule) -> Rule:
        def of_arrays(mp: Any, eqn: Any, *operands: np.ndarray) -> np.ndarray:
            def of_numbers(*numbers: Any) -> Any:
                try:
                    y = rule(mp, *numbers)
                except (ZeroDivisionError, ValueError):  # by which mpmath says that a function has a pole there
                    return mp.nan
                return mp.nan if isinstance(y, mp.mpc) else y

            kind = eqn.outvars[0].aval.dtype.kind
            return as_array(np.frompyfunc(of_numbers, len(operands), 1)(*operands), object if kind == "f" else bool)

        _registered(names, of_arrays)
        return rule

    return register


def as_array(x: Any, dtype: Any = object) -> np.ndarray:
    """An array of this dtype: NumPy's functions return the number itself where an array of objects has no axis."""
    if isinstance(x, np.ndarray):
        return x.astype(dtype)
    array = np.empty((), dtype)
    array[()] = x
    return array


def rules() -> Mapping[str, Rule]:
    """The rules of arrays by primitive. They are complete once `extended.evaluation` is imported."""
    return MappingProxyType(_RULES)
