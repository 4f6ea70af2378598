"""Values in NumPy, by the operands that they are the same as JAX's for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.registry import Value

_FLOAT64, _COMPLEX128 = np.dtype(np.float64), np.dtype(np.complex128)  # a type would be converted at each comparison


def of_any(f: Callable[..., Any]) -> Value:
    """A function of operands of any dtype."""
    return Value(f, always, takes_parameters=False, wherever_real=always)


def of_floats(f: Callable[..., Any]) -> Value:
    """A function of real or complex operands."""
    return Value(f, all_floating, takes_parameters=False, wherever_real=always)


def of_reals(f: Callable[..., Any]) -> Value:
    """A function of real operands."""
    return Value(f, all_real, takes_parameters=False, wherever_real=always)


def of_one(f: Callable[..., Any]) -> Value:
    """A function of one operand of any dtype, and of the equation's parameters."""
    return Value(f, _is_one, takes_parameters=True, wherever_real=_is_one)


def of_one_real(f: Callable[..., Any]) -> Value:
    """A function of one real operand, and of the equation's parameters."""
    return Value(f, all_real, takes_parameters=True, wherever_real=_is_one)


def where(applies: Callable[[core.JaxprEqn, Sequence[np.ndarray]], bool], f: Callable[..., Any]) -> Value:
    """A function of operands for which that holds, and of the equation's parameters."""
    everywhere = applies in (all_real, all_floating, always)
    return Value(f, applies, takes_parameters=True, wherever_real=always if everywhere else _never)


def scipy(name: str) -> Value:
    """A function of scipy.special of real operands."""

    # Imported at the first use: importing scipy.special adds a warning filter, which `numerics.pinned` takes back.
    def f(*x: np.ndarray) -> np.ndarray:
        return getattr(importlib.import_module("scipy.special"), name)(*x)

    return of_reals(f)


def always(eqn: core.JaxprEqn, x: Sequence[np.ndarray] = ()) -> bool:
    """True of all operands."""
    return True


def _never(eqn: core.JaxprEqn, x: Sequence[np.ndarray] = ()) -> bool:
    return False


def _is_one(eqn: core.JaxprEqn, x: Sequence[np.ndarray] = ()) -> bool:
    return len(eqn.invars) == 1


# Loops, since they are asked for every equation, and a generator for `all` takes several times as long.
def all_real(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """Whether all operands are float64."""
    for a in x:  # noqa: SIM110
        if a.dtype != _FLOAT64:
            return False
    return True


def all_floating(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """Whether all operands are float64 or complex128."""
    for a in x:  # noqa: SIM110
        if a.dtype != _FLOAT64 and a.dtype != _COMPLEX128:
            return False
    return True


def along(accumulate: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A running sum, product or extremum, from either end."""

    def cumulative(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
        return np.flip(accumulate(np.flip(x, axis), axis=axis), axis) if reverse else accumulate(x, axis=axis)

    return cumulative
