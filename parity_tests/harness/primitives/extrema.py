"""The largest and smallest of several numbers, and their places."""

from __future__ import annotations

import functools

import numpy as np
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.exact.arrays import as_array, larger, of_numbers, reduced, smaller
from parity_tests.harness.primitives.field import orders
from parity_tests.harness.primitives.registry import Kind, primitive
from parity_tests.harness.primitives.value.functions import all_real, of_one_real, of_reals, where

_EXTREMUM = Kind.MONOTONE | Kind.COMPARES


@primitive(of_jax.max_p, kinds=_EXTREMUM, value=of_reals(np.maximum), exact=of_numbers(larger), field=orders.larger)
@primitive(of_jax.min_p, kinds=_EXTREMUM, value=of_reals(np.minimum), exact=of_numbers(smaller), field=orders.smaller)
@primitive(
    of_jax.clamp_p,
    kinds=_EXTREMUM,
    value=where(all_real, lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    exact=of_numbers(lambda mp, low, x, high: smaller(mp, larger(mp, x, low), high)),
    field=orders.clamped,
)
def _extremum_of_operands(eqn, x, e, y, p):
    return functools.reduce(np.maximum, e)


@primitive(
    of_jax.reduce_max_p,
    kinds=_EXTREMUM,
    value=of_one_real(lambda x, axes, **_: np.maximum.reduce(x, tuple(axes), initial=-np.inf)),
    exact=reduced(larger, lambda mp: -mp.inf),
    field=orders.largest,
)
@primitive(
    of_jax.reduce_min_p,
    kinds=_EXTREMUM,
    value=of_one_real(lambda x, axes, **_: np.minimum.reduce(x, tuple(axes), initial=np.inf)),
    exact=reduced(smaller, lambda mp: mp.inf),
    field=orders.smallest,
)
def _extremum(eqn, x, e, y, p, *, axes):
    # Only the errors of those that may be it: a mask of -1e9, which a short format rounds by millions, never is.
    sign = 1 if eqn.primitive.name == "reduce_max" else -1
    unknown = np.isinf(e[0])
    surely = np.where(unknown, -np.inf, sign * x[0] - e[0]).max(axes, initial=-np.inf, keepdims=True)
    return np.where(unknown | (sign * x[0] + e[0] >= surely), e[0], 0.0).max(axes, initial=0.0)


def _place(mp, eqn, x, *, axes, index_dtype):
    (axis,) = axes
    place = np.argmax if eqn.primitive.name == "argmax" else np.argmin
    return as_array(place(x, axis)).astype(index_dtype)


@primitive(of_jax.argmax_p, of_jax.argmin_p, exact=_place)
def _position(eqn, x, e, y, p, *, axes):
    (axis,) = axes
    winner = np.expand_dims(y, axis)
    numbers = x[0] * 1.0  # of booleans, too
    margin = np.abs(numbers - np.take_along_axis(numbers, winner, axis))
    may = margin <= e[0] + np.take_along_axis(e[0], winner, axis)  # the winner itself always may
    if not p.any_choice:  # see `primitives.order`
        may &= (may & (margin > 0)).any(axis, keepdims=True)
    places = np.moveaxis(np.broadcast_to(np.arange(x[0].shape[axis]), np.moveaxis(x[0], axis, -1).shape), -1, axis)
    return np.where(may, np.abs(places - winner), 0).max(axis)
