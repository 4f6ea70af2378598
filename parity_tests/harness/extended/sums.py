"""Sums, products, extrema and contractions of arrays in extended precision."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from parity_tests.harness.extended.arithmetic import larger, smaller
from parity_tests.harness.extended.registry import as_array, primitive
from parity_tests.harness.primitives.value.convolutions import convolved
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.products import contracted


def _folded(x: np.ndarray, axes: tuple[int, ...], combine: Callable[[Any, Any], Any], start: Any) -> np.ndarray:
    """Each entry of the result combines those along the axes, one after the other."""
    kept = [size for i, size in enumerate(x.shape) if i not in axes]
    count = math.prod(x.shape[i] for i in axes)  # which may be 0, as the others may
    rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(*kept, count)
    y = np.empty(kept, object)
    for place in np.ndindex(*kept):
        y[place] = functools.reduce(combine, rows[place].tolist(), start)
    return y


@primitive("reduce_sum")
def _sum(mp, eqn, x):
    return _folded(x, tuple(eqn.params["axes"]), lambda a, b: a + b, mp.zero)


@primitive("reduce_prod")
def _product(mp, eqn, x):
    return _folded(x, tuple(eqn.params["axes"]), lambda a, b: a * b, mp.one)


@primitive("reduce_max")
def _maximum(mp, eqn, x):
    return _folded(x, tuple(eqn.params["axes"]), functools.partial(larger, mp), -mp.inf)


@primitive("reduce_min")
def _minimum(mp, eqn, x):
    return _folded(x, tuple(eqn.params["axes"]), functools.partial(smaller, mp), mp.inf)


@primitive("argmax", "argmin")
def _place(mp, eqn, x):
    (axis,) = eqn.params["axes"]
    place = np.argmax if eqn.primitive.name == "argmax" else np.argmin
    return as_array(place(x, axis)).astype(eqn.params["index_dtype"])


def _cumulative(x: np.ndarray, eqn: Any, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    axis, y = eqn.params["axis"], x.copy()
    order = range(x.shape[axis])
    order = order[::-1] if eqn.params["reverse"] else order
    along = np.moveaxis(y, axis, 0)
    for before, i in itertools.pairwise(order):
        along[i] = np.frompyfunc(combine, 2, 1)(along[before], along[i])
    return y


@primitive("cumsum")
def _cumulative_sum(mp, eqn, x):
    return _cumulative(x, eqn, lambda a, b: a + b)


@primitive("cumprod")
def _cumulative_product(mp, eqn, x):
    return _cumulative(x, eqn, lambda a, b: a * b)


@primitive("cummax")
def _cumulative_maximum(mp, eqn, x):
    return _cumulative(x, eqn, functools.partial(larger, mp))


@primitive("cummin")
def _cumulative_minimum(mp, eqn, x):
    return _cumulative(x, eqn, functools.partial(smaller, mp))


@primitive("dot_general")
def _contraction(mp, eqn, x, y):
    (axes, _), _ = eqn.params["dimension_numbers"]
    if not all(x.shape[axis] for axis in axes):
        return as_array(np.full(eqn.outvars[0].aval.shape, mp.zero, object))
    return as_array(contracted(x, y, **eqn.params))


@primitive("scatter-add")
def _scattered_sum(mp, eqn, x, indices, updates):
    """Where each entry of the updates goes, the evaluation in float64 says of it alone."""
    y, none = x.copy(), np.zeros(x.shape)
    for i, update in enumerate(updates.flat):
        alone = np.zeros(updates.shape)
        alone.flat[i] = 1.0
        for place in np.argwhere(np.asarray(evaluated(eqn, none, indices, alone))):
            y[tuple(place)] = y[tuple(place)] + update
    return y


@primitive("conv_general_dilated")
def _convolution(mp, eqn, x, w):
    return as_array(convolved(x, w, **eqn.params))


@primitive("sort")
def _sorted(mp, eqn, *x):
    if eqn.params["num_keys"] != 1:
        raise NotImplementedError("a sort by several keys in extended precision")
    if x[0].dtype == object and (x[0] != x[0]).any():
        raise NotImplementedError("a sort of NaN in extended precision")
    order = np.argsort(x[0], eqn.params["dimension"], kind="stable")
    return [np.take_along_axis(a, order, eqn.params["dimension"]) for a in x]
