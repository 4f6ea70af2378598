"""Rules of arrays, whose floating-point numbers are objects, from rules of single numbers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from parity_tests.harness.primitives.registry import Exact

Combine = Callable[[Any, Any, Any], Any]


def as_array(x: Any, dtype: Any = object) -> np.ndarray:
    """An array of this dtype: NumPy's functions return the number itself where an array of objects has no axis."""
    if isinstance(x, np.ndarray):
        return x.astype(dtype)
    array = np.empty((), dtype)
    array[()] = x
    return array


def of_numbers(rule: Callable[..., Any]) -> Exact:
    """A rule of arrays by one of single numbers, (context, numbers...) -> number or boolean.

    A pole, and what is not real, becomes NaN: it has no number that anything could be compared with.
    """

    def of_arrays(mp: Any, eqn: Any, *operands: np.ndarray) -> np.ndarray:
        def of_numbers(*numbers: Any) -> Any:
            try:
                y = rule(mp, *numbers)
            except (ZeroDivisionError, ValueError):  # by which mpmath says that a function has a pole there
                return mp.nan
            return mp.nan if isinstance(y, mp.mpc) else y

        kind = eqn.outvars[0].aval.dtype.kind
        return as_array(np.frompyfunc(of_numbers, len(operands), 1)(*operands), object if kind == "f" else bool)

    return of_arrays


def mpmath(name: str) -> Exact:
    """The rule of a function that mpmath has."""
    return of_numbers(lambda mp, *x: getattr(mp, name)(*x))


def operator(f: Callable[..., Any]) -> Exact:
    """The rule of an operator of Python's, which NumPy calls in a loop in half the time of `of_numbers`; no poles."""
    return lambda mp, eqn, *x: as_array(f(*x))


def larger(mp: Any, x: Any, y: Any) -> Any:
    """The larger one, or NaN where one is NaN."""
    return x + y if mp.isnan(x) or mp.isnan(y) else max(x, y)


def smaller(mp: Any, x: Any, y: Any) -> Any:
    """The smaller one, or NaN where one is NaN."""
    return x + y if mp.isnan(x) or mp.isnan(y) else min(x, y)


def reduced(combine: Combine, start: Callable[[Any], Any]) -> Exact:
    """The rule of a reduction: each entry of the result combines those along the axes, one after the other."""

    def rule(mp: Any, eqn: Any, x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        kept = [size for i, size in enumerate(x.shape) if i not in axes]
        count = math.prod(x.shape[i] for i in axes)  # which may be 0, as the others may
        rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(*kept, count)
        y = np.empty(kept, object)
        for place in np.ndindex(*kept):
            y[place] = functools.reduce(functools.partial(combine, mp), rows[place].tolist(), start(mp))
        return y

    return rule


def cumulative(combine: Combine) -> Exact:
    """The rule of a running sum, product or extremum."""

    def rule(mp: Any, eqn: Any, x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        y = x.copy()
        order = range(x.shape[axis])
        order = order[::-1] if reverse else order
        along = np.moveaxis(y, axis, 0)
        for before, i in itertools.pairwise(order):
            along[i] = np.frompyfunc(functools.partial(combine, mp), 2, 1)(along[before], along[i])
        return y

    return rule
