"""Arithmetic, roundings to integers, the parts of complex numbers, and constants."""

from __future__ import annotations

import numpy as np
from jax.extend.core import primitives as of_jax

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.tolerances import TO_TOLERANCE
from parity_tests.harness.primitives.bound import complex as of_complex
from parity_tests.harness.primitives.bound.base import change, every, underflow
from parity_tests.harness.primitives.exact.arrays import as_array, mpmath, of_numbers, operator
from parity_tests.harness.primitives.field import functions, orders
from parity_tests.harness.primitives.field.fields import Field
from parity_tests.harness.primitives.field.rules import entrywise
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import always, of_any, of_floats, of_one, of_reals, where
from parity_tests.harness.primitives.value.indexing import counted, is_native
from parity_tests.harness.primitives.value.movements import itself

_SUM = {"kinds": Kind.ADDS, "complex": BY_MODULUS}
_ADDITION = {"value": of_any(np.add), "exact": operator(np.add), "field": entrywise(Field.add)}


@primitive(of_jax.add_p, of_jax.add_jaxvals_p, **_SUM, **_ADDITION)
@primitive(of_jax.sub_p, **_SUM, value=of_any(np.subtract), exact=operator(np.subtract), field=entrywise(Field.sub))
def _sum_of_two(eqn, x, e, y, p):
    bound = e[0] + e[1] + p.u * np.abs(y)
    return bound if every(np.isfinite(y)) else np.where(_exactly_infinite(x, e, y), 0.0, bound)


@primitive(
    of_jax.mul_p,
    kinds=Kind.PRODUCT | Kind.BILINEAR,
    complex=BY_MODULUS,
    value=of_any(np.multiply),
    exact=operator(np.multiply),
    field=entrywise(Field.mul),
)
def _product(eqn, x, e, y, p):
    passed_on = np.abs(x[0]) * e[1] + e[0] * np.abs(x[1]) + e[0] * e[1]
    roundings = of_complex.PRODUCT if y.dtype.kind == "c" else 1
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


@primitive(
    of_jax.div_p,
    kinds=Kind.LIMIT | Kind.SMOOTH | Kind.MAY_BE_EXACT,
    complex=BY_MODULUS,
    value=of_floats(np.divide),
    exact=of_numbers(lambda mp, x, y: x / y),
    field=functions.quotient,
)
def _quotient(eqn, x, e, y, p):
    room = np.abs(x[1]) - e[1]
    passed_on = np.where(room > 0, (e[0] + np.abs(y) * e[1]) / room, np.where(e[0] + e[1] > 0, np.inf, 0.0))
    roundings = of_complex.QUOTIENT if np.iscomplexobj(y) else 1
    lost = roundings * p.tiny if np.count_nonzero(x[0]) == x[0].size else np.where(x[0] == 0, 0.0, roundings * p.tiny)
    own = roundings * p.u * np.abs(y)
    bound = passed_on + own + lost
    if every(np.isfinite(x[0])):
        return bound
    exact = np.isinf(x[0]) & (e[0] == 0) & (room > 0) & np.isfinite(e[1])
    return np.where(exact, 0.0, bound)


@primitive(TO_TOLERANCE, complex=BY_MODULUS, value=of_one(itself), exact=lambda mp, eqn, x: x)
def _to_tolerance(eqn, x, e, y, p, *, rtol, atol):
    # The exact value has no such error, which `analysis.bounded` would add in proportion to the format's.
    share = 1 / (1 + FLOAT64.u / p.u)
    return e[0] + share * (rtol * np.abs(y) + atol)


@primitive(
    of_jax.neg_p,
    kinds=Kind.KEEPS_SIZE | Kind.LINEAR,
    complex=BY_MODULUS,
    value=of_any(np.negative),
    exact=operator(np.negative),
)
@primitive(of_jax.real_p, of_jax.imag_p, of_jax.conj_p, complex=BY_MODULUS)
@primitive(of_jax.reduce_precision_p)
def _exact(eqn, x, e, y, p):
    return e[0]


@primitive(
    of_jax.abs_p,
    kinds=Kind.COMPARES,
    complex=BY_MODULUS,
    value=of_reals(np.abs),
    exact=operator(np.abs),
    field=orders.absolute,
)
def _magnitude(eqn, x, e, y, p):
    return e[0] + 4 * p.u * y + underflow(y, p) if np.iscomplexobj(x[0]) else e[0]


@primitive(of_jax.complex_p, complex=BY_MODULUS)
def _pair(eqn, x, e, y, p):
    return np.hypot(e[0], e[1])


@primitive(
    of_jax.rem_p,
    exact=of_numbers(lambda mp, x, y: x - y * (mp.floor(abs(x / y)) * mp.sign(x / y))),
    field=functions.remainder,
)
def _remainder(eqn, x, e, y, p):
    # x - n y with n = trunc(x / y), as long as rounding does not change n.
    n = np.trunc(x[0] / x[1])
    room = np.abs(x[1]) - np.abs(y)
    error = e[0] + np.abs(n) * e[1]
    certain = (error < room) & ((error < np.abs(y)) | (n == 0))
    return np.where(certain | (error == 0), error + p.u * np.abs(y), np.inf)


@primitive(of_jax.iota_p, kinds=Kind.CONSTANT, value=where(is_native, counted))
@primitive(of_jax.empty2_p, "platform_index", kinds=Kind.CONSTANT)
def _constant(eqn, x, e, y, p):
    return np.zeros(y.shape)


@primitive("dce_sink", complex=BY_MODULUS)  # no public module has it from JAX 0.12 on
def _nothing(eqn, x, e, y, p):
    """It has no results: it keeps its operands from being removed as unused."""
    return []


# What stands by its name, "platform_index" too, has no public object.
@primitive("empty", complex=BY_MODULUS, value=where(always, lambda shape, dtype, **_: np.zeros(tuple(shape), dtype)))
def _uninitialised(eqn, x, e, y, p):
    """Any number is right (JAX 0.11): what a program reads of it before it has written it has no bound."""
    return np.full(y.shape, np.inf)


@primitive(of_jax.nextafter_p, kinds=Kind.FUNCTION)
def _neighbour(eqn, x, e, y, p):
    """The next number of a format is one spacing of its own away, in the direction of the other operand."""
    return e[0] + 4 * p.u * (np.abs(x[0]) + e[0]) + 2 * p.tiny


def _rounded(mp, eqn, x, *, rounding_method):
    to_even = "EVEN" in str(rounding_method)

    def rounded(x):
        return mp.nint(x) if to_even else mp.sign(x) * mp.floor(abs(x) + mp.mpf(0.5))

    return as_array(np.frompyfunc(rounded, 1, 1)(x))


_STEP = Kind.STEP | Kind.INTEGERS


@primitive(of_jax.floor_p, kinds=_STEP, value=of_reals(np.floor), exact=mpmath("floor"))
@primitive(of_jax.ceil_p, kinds=_STEP, value=of_reals(np.ceil), exact=mpmath("ceil"))
@primitive(of_jax.round_p, kinds=_STEP, exact=_rounded)
@primitive(
    of_jax.sign_p,
    kinds=Kind.FUNCTION | Kind.MONOTONE | Kind.INTEGERS | Kind.COMPARES,
    complex=of_complex.sign,
    exact=mpmath("sign"),
)
def _step(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return change(y, low, high)
