"""Rounding errors of arithmetic, comparisons and selections, and of what only moves numbers."""

from __future__ import annotations

import functools

import numpy as np

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.tolerances import TO_TOLERANCE
from parity_tests.harness.primitives.bound import complex as rounding_complex
from parity_tests.harness.primitives.bound.base import change, every, underflow
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated

MOVES = Kind.MOVES | Kind.LINEAR


@primitive("add", "sub", "add_any", kinds=Kind.ADDS, complex=BY_MODULUS)
def _sum_of_two(eqn, x, e, y, p):
    bound = e[0] + e[1] + p.u * np.abs(y)
    return bound if every(np.isfinite(y)) else np.where(_exactly_infinite(x, e, y), 0.0, bound)


@primitive("mul", kinds=Kind.PRODUCT | Kind.BILINEAR, complex=BY_MODULUS)
def _product(eqn, x, e, y, p):
    passed_on = np.abs(x[0]) * e[1] + e[0] * np.abs(x[1]) + e[0] * e[1]
    roundings = rounding_complex.PRODUCT if y.dtype.kind == "c" else 1
    own = roundings * p.u * np.abs(y)
    lost = roundings * p.tiny
    if np.count_nonzero(x[0]) < x[0].size or np.count_nonzero(x[1]) < x[1].size:
        lost = np.where((x[0] == 0) | (x[1] == 0), 0.0, lost)
    bound = passed_on + own + lost
    if every(np.isfinite(y)):
        return bound
    sure = (np.abs(x[0]) > e[0]) & (np.abs(x[1]) > e[1])  # of their signs
    return np.where(_exactly_infinite(x, e, y) & sure, 0.0, bound)


def _exactly_infinite(x, e, y):
    """True where y is infinite because one operand is, exactly, and the other is finite or the same infinity."""
    either = (np.isinf(x[0]) & (e[0] == 0)) | (np.isinf(x[1]) & (e[1] == 0))
    return np.isinf(y) & either & np.isfinite(e[0] + e[1])


@primitive("div", complex=BY_MODULUS)
def _quotient(eqn, x, e, y, p):
    room = np.abs(x[1]) - e[1]
    passed_on = np.where(room > 0, (e[0] + np.abs(y) * e[1]) / room, np.where(e[0] + e[1] > 0, np.inf, 0.0))
    roundings = rounding_complex.QUOTIENT if np.iscomplexobj(y) else 1
    lost = roundings * p.tiny if np.count_nonzero(x[0]) == x[0].size else np.where(x[0] == 0, 0.0, roundings * p.tiny)
    own = roundings * p.u * np.abs(y)
    bound = passed_on + own + lost
    if every(np.isfinite(x[0])):
        return bound
    exact = np.isinf(x[0]) & (e[0] == 0) & (room > 0) & np.isfinite(e[1])
    return np.where(exact, 0.0, bound)


@primitive(TO_TOLERANCE, complex=BY_MODULUS)
def _to_tolerance(eqn, x, e, y, p):
    # The exact value has no such error, which `analysis.bounded` would add in proportion to the format's.
    share = 1 / (1 + FLOAT64.u / p.u)
    return e[0] + share * (eqn.params["rtol"] * np.abs(y) + eqn.params["atol"])


@primitive("neg", "copy", "copy_p", kinds=Kind.KEEPS_SIZE | Kind.LINEAR, complex=BY_MODULUS)
@primitive("name", kinds=Kind.KEEPS_SIZE | Kind.LINEAR, complex=BY_MODULUS)  # of jax.ad_checkpoint.checkpoint_name
@primitive("stop_gradient", kinds=Kind.KEEPS_SIZE, complex=BY_MODULUS)  # whose derivative is 0
@primitive("real", "imag", "conj", complex=BY_MODULUS)
@primitive("reduce_precision")
def _exact(eqn, x, e, y, p):
    return e[0]


@primitive("abs", complex=BY_MODULUS)
def _magnitude(eqn, x, e, y, p):
    return e[0] + 4 * p.u * y + underflow(y, p) if np.iscomplexobj(x[0]) else e[0]


@primitive("complex", complex=BY_MODULUS)
def _pair(eqn, x, e, y, p):
    return np.hypot(e[0], e[1])


@primitive("max", "min", "clamp", kinds=Kind.MONOTONE)
def _extremum_of_operands(eqn, x, e, y, p):
    return functools.reduce(np.maximum, e)


@primitive("reduce_max", "reduce_min", kinds=Kind.MONOTONE)
def _extremum(eqn, x, e, y, p):
    # Only the errors of those that may be it: a mask of -1e9, which a short format rounds by millions, never is.
    axes = tuple(eqn.params["axes"])
    sign = 1 if eqn.primitive.name == "reduce_max" else -1
    unknown = np.isinf(e[0])
    surely = np.where(unknown, -np.inf, sign * x[0] - e[0]).max(axes, initial=-np.inf, keepdims=True)
    return np.where(unknown | (sign * x[0] + e[0] >= surely), e[0], 0.0).max(axes, initial=0.0)


@primitive("reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", kinds=MOVES, complex=BY_MODULUS)
@primitive("slice", "rev", kinds=MOVES, complex=BY_MODULUS)
@primitive("concatenate", "pad", kinds=Kind.MOVES, complex=BY_MODULUS)
@primitive("split", kinds=Kind.MOVES_UNFOLLOWED, complex=BY_MODULUS)
@primitive("stack", "unstack", "tile", kinds=Kind.MOVES_UNFOLLOWED)
def _rearranged(eqn, x, e, y, p):
    bounds = evaluated(eqn, *e)
    return [*map(np.asarray, bounds)] if eqn.primitive.multiple_results else np.asarray(bounds)


@primitive("rem")
def _remainder(eqn, x, e, y, p):
    # x - n y with n = trunc(x / y), as long as rounding does not change n.
    n = np.trunc(x[0] / x[1])
    room = np.abs(x[1]) - np.abs(y)
    error = e[0] + np.abs(n) * e[1]
    certain = (error < room) & ((error < np.abs(y)) | (n == 0))
    return np.where(certain | (error == 0), error + p.u * np.abs(y), np.inf)


@primitive("argmax", "argmin")
def _position(eqn, x, e, y, p):
    (axis,) = eqn.params["axes"]
    winner = np.expand_dims(y, axis)
    numbers = x[0] * 1.0  # of booleans, too
    margin = np.abs(numbers - np.take_along_axis(numbers, winner, axis))
    may = margin <= e[0] + np.take_along_axis(e[0], winner, axis)  # the winner itself always may
    if not p.any_choice:  # see `primitives.order`
        may &= (may & (margin > 0)).any(axis, keepdims=True)
    places = np.moveaxis(np.broadcast_to(np.arange(x[0].shape[axis]), np.moveaxis(x[0], axis, -1).shape), -1, axis)
    return np.where(may, np.abs(places - winner), 0).max(axis)


@primitive("iota", "empty2", "platform_index", kinds=Kind.CONSTANT)
def _constant(eqn, x, e, y, p):
    return np.zeros(y.shape)


@primitive("dce_sink", complex=BY_MODULUS)
def _nothing(eqn, x, e, y, p):
    """It has no results: it keeps its operands from being removed as unused."""
    return []


@primitive("empty", complex=BY_MODULUS)
def _uninitialised(eqn, x, e, y, p):
    """Any number is right (JAX 0.11): what a program reads of it before it has written it has no bound."""
    return np.full(y.shape, np.inf)


@primitive("nextafter", kinds=Kind.FUNCTION)
def _neighbour(eqn, x, e, y, p):
    """The next number of a format is one spacing of its own away, in the direction of the other operand."""
    return e[0] + 4 * p.u * (np.abs(x[0]) + e[0]) + 2 * p.tiny


@primitive("eq", "ne", complex=BY_MODULUS)
@primitive("lt", "le", "gt", "ge", "lt_to", "le_to")
def _comparison(eqn, x, e, y, p):
    """1 where rounding may change the answer, else 0."""
    if x[0].dtype.kind == "b":
        return np.maximum(e[0], e[1])
    if x[0].dtype.kind in "iu":
        return _comparison_of_integers(eqn.primitive.name.removesuffix("_to"), x, e)
    # An exact tie comes from the structure (x against itself, or against the maximum it is part of), not by accident.
    return ((x[0] != x[1]) & (np.abs(x[0] - x[1]) <= e[0] + e[1])).astype(float)


def _comparison_of_integers(name, x, e):
    """An integer that rounding may change, such as the place of the largest entry, equals another by accident only."""
    apart, moved = x[0] * 1.0 - x[1] * 1.0, np.floor(e[0] + e[1] + 0.5)
    if name in ("eq", "ne"):
        return ((np.abs(apart) <= moved) & (moved > 0)).astype(float)
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[name]
    return (compare(apart - moved, 0) != compare(apart + moved, 0)).astype(float)


@primitive("is_finite")
def _is_finite(eqn, x, e, y, p):
    return np.isinf(e[0]).astype(float)


@primitive("select_n", kinds=Kind.SELECTS, complex=BY_MODULUS)
def _select(eqn, x, e, y, p):
    chosen = np.asarray(evaluated(eqn, x[0], *e[1:]))
    other = functools.reduce(
        np.maximum, (np.abs(case * 1.0 - y * 1.0) + bound for case, bound in zip(x[1:], e[1:], strict=True))
    )
    return np.where(np.asarray(e[0]) > 0, other, chosen)


@primitive("floor", "ceil", "round", kinds=Kind.STEP)
@primitive("sign", kinds=Kind.FUNCTION | Kind.MONOTONE, complex=rounding_complex.sign)
def _step(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return change(y, low, high)
