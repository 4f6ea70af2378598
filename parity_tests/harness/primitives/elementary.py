"""Elementary functions: powers and roots, exponentials and logarithms, trigonometric and hyperbolic functions, erf."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.bound import complex as of_complex
from parity_tests.harness.primitives.bound.base import change, own, relative, underflow
from parity_tests.harness.primitives.exact.arrays import as_array, mpmath, of_numbers
from parity_tests.harness.primitives.field import functions
from parity_tests.harness.primitives.registry import Kind, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import all_real, of_floats, of_reals, scipy, where

MONOTONE = Kind.FUNCTION | Kind.MONOTONE
_SATURATES = MONOTONE | Kind.SATURATES | Kind.LIMIT
_BEYOND, _BEFORE = of_complex.beyond_both, of_complex.before_one
# Beyond exp of this every format has overflowed, or underflowed, and mpmath would need as many bits for the exponent.
_EXPONENT = 2**200


def _exponential(mp: Any, x: Any) -> Any:
    if abs(x) > _EXPONENT:
        return mp.inf if x > 0 else mp.zero
    return mp.exp(x)


def _hyperbolic(mp: Any, x: Any, f: str) -> Any:
    """sinh or cosh."""
    if abs(x) < _EXPONENT:
        return getattr(mp, f)(x)
    return mp.inf if f == "cosh" else mp.sign(x) * mp.inf


@primitive(
    of_jax.cbrt_p,
    kinds=MONOTONE | Kind.ROOT,
    value=of_reals(np.cbrt),
    exact=of_numbers(lambda mp, x: mp.sign(x) * mp.cbrt(abs(x))),
    field=functions.cube_root,
)
@primitive(of_jax.erf_inv_p, kinds=MONOTONE, value=scipy("erfinv"), exact=mpmath("erfinv"))
# Of scipy.special, in `language.spelled_out`: JAX has no primitives of these names.
@primitive(
    "erfcx", kinds=MONOTONE, value=scipy("erfcx"), exact=of_numbers(lambda mp, x: mp.erfc(x) * _exponential(mp, x * x))
)
@primitive("erfcinv", kinds=MONOTONE, value=scipy("erfcinv"))
@primitive("ndtri", kinds=MONOTONE, value=scipy("ndtri"))
@primitive(
    of_jax.expm1_p,
    kinds=_SATURATES,
    complex=of_complex.exponential_less_one,
    value=of_reals(np.expm1),
    exact=of_numbers(lambda mp, x: _exponential(mp, x) - 1 if abs(x) > 1 else mp.expm1(x)),
    field=functions.exponential_less_one,
)
@primitive(
    of_jax.log1p_p,
    kinds=MONOTONE | Kind.ROOT,
    complex=of_complex.logarithm_of_sum,
    value=of_reals(np.log1p),
    exact=mpmath("log1p"),
    field=functions.logarithm,
)
@primitive(
    of_jax.rsqrt_p,
    kinds=MONOTONE | Kind.LIMIT | Kind.ROOT,
    complex=of_complex.reciprocal_root,
    value=of_reals(lambda x: 1 / np.sqrt(x)),
    exact=of_numbers(lambda mp, x: 1 / mp.sqrt(x)),
    field=functions.inverse_root,
)
@primitive(
    of_jax.asin_p,
    kinds=MONOTONE,
    complex=of_complex.inverse(1, _BEYOND, 0.5),
    value=of_reals(np.arcsin),
    exact=mpmath("asin"),
)
@primitive(
    of_jax.acos_p,
    kinds=MONOTONE,
    complex=of_complex.inverse(1, _BEYOND, 0.5),
    value=of_reals(np.arccos),
    exact=mpmath("acos"),
)
@primitive(
    of_jax.asinh_p,
    kinds=MONOTONE,
    complex=of_complex.inverse(1j, _BEYOND, 0.5),
    value=of_reals(np.arcsinh),
    exact=mpmath("asinh"),
)
@primitive(
    of_jax.acosh_p,
    kinds=MONOTONE,
    complex=of_complex.inverse(1, _BEFORE, 0.5),
    value=of_reals(np.arccosh),
    exact=mpmath("acosh"),
)
@primitive(
    of_jax.atan_p,
    kinds=MONOTONE | Kind.LIMIT,
    complex=of_complex.inverse(1j, _BEYOND, 1),
    value=of_reals(np.arctan),
    exact=mpmath("atan"),
)
@primitive(
    of_jax.atanh_p,
    kinds=MONOTONE,
    complex=of_complex.inverse(1, _BEYOND, 1),
    value=of_reals(np.arctanh),
    exact=mpmath("atanh"),
)
@primitive(
    of_jax.sinh_p,
    kinds=MONOTONE,
    complex=of_complex.of_two(np.cosh),
    value=of_reals(np.sinh),
    exact=of_numbers(lambda mp, x: _hyperbolic(mp, x, "sinh")),
    field=functions.hyperbolic_sine,
)
@primitive(
    of_jax.tanh_p,
    kinds=_SATURATES,
    complex=of_complex.hyperbolic_tangent,
    value=of_floats(np.tanh),
    exact=mpmath("tanh"),
    field=functions.hyperbolic_tangent,
)
@primitive(
    of_jax.log_p,
    kinds=MONOTONE | Kind.ROOT,
    complex=of_complex.logarithm,
    value=of_floats(np.log),
    exact=mpmath("log"),
    field=functions.logarithm,
)
@primitive(
    "log2",  # of JAX 0.11 and later
    kinds=MONOTONE | Kind.ROOT,
    complex=of_complex.logarithm_to_base_two,
    value=of_floats(np.log2),
    exact=of_numbers(lambda mp, x: mp.log(x) / mp.ln2),
    field=functions.logarithm_to_base_two,
)
@primitive(
    of_jax.sqrt_p,
    kinds=MONOTONE | Kind.ROOT,
    complex=of_complex.root,
    value=of_floats(np.sqrt),
    exact=mpmath("sqrt"),
    field=functions.square_root,
)
def _monotone(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return change(y, low, high) + own(y, p)


@primitive(
    of_jax.erf_p,
    kinds=_SATURATES,
    value=scipy("erf"),
    exact=of_numbers(lambda mp, x: mp.erf(x) if abs(x) < _EXPONENT else mp.sign(x)),
    field=functions.error_function,
)
def _error_function(eqn, x, e, y, p):
    # The polynomial in PyTorch's GELU errs by up to 5.7 eps where erf is nearly 1 (float32, AVX512, PyTorch 2.13).
    return _monotone(eqn, x, e, y, p) + own(y, p)


@primitive(
    of_jax.cosh_p,
    kinds=Kind.FUNCTION,
    complex=of_complex.of_two(np.sinh),
    value=of_reals(np.cosh),
    exact=of_numbers(lambda mp, x: _hyperbolic(mp, x, "cosh")),
    field=functions.hyperbolic_cosine,
)
def _even(eqn, x, e, y, p):
    return np.cosh(np.abs(x[0]) + e[0]) - y + own(y, p)


@primitive(
    of_jax.sin_p,
    kinds=Kind.FUNCTION,
    complex=of_complex.of_two(np.cos),
    value=of_floats(np.sin),
    exact=mpmath("sin"),
    field=functions.sine,
)
def _sine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.cos(x[0])) * e[0] + e[0] ** 2 / 2, 2) + own(y, p)


@primitive(
    of_jax.cos_p,
    kinds=Kind.FUNCTION,
    complex=of_complex.of_two(np.sin),
    value=of_floats(np.cos),
    exact=mpmath("cos"),
    field=functions.cosine,
)
def _cosine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.sin(x[0])) * e[0] + e[0] ** 2 / 2, 2) + own(y, p)


def _complex_integer_power(eqn, x, e, z, p, *, y=2):
    more = (of_complex.PRODUCT - 1) * abs(y) + (of_complex.QUOTIENT if y < 0 else 0)
    bound = _integer_power(eqn, x, e, z, p, y=y) + more * (p.u * np.abs(z) + underflow(z, p))
    if 0 <= y <= 2:
        return bound
    # Who does not multiply has exp(y log x), as the C library and PyTorch do: the logarithm's errors, y times.
    size = np.abs(np.log(np.where(x[0] == 0, 1, x[0])))
    of_exponent = abs(y) * (4 * p.u + (relative(p) + p.u) * size)
    return bound + np.abs(z) * np.expm1(of_exponent) + of_complex.own(z, p)


def _exact_integer_power(mp, eqn, x, *, y):
    return as_array(np.frompyfunc(lambda x: mp.nan if x == 0 and y < 0 else x**y, 1, 1)(x))


@primitive(
    of_jax.integer_pow_p,
    kinds=Kind.FUNCTION | Kind.PRODUCT | Kind.LIMIT,
    complex=_complex_integer_power,
    value=where(all_real, lambda x, y: np.power(x, float(y))),
    exact=_exact_integer_power,
    field=functions.integer_power,
)
@primitive(
    of_jax.square_p,
    kinds=Kind.FUNCTION | Kind.PRODUCT,
    complex=_complex_integer_power,
    value=of_floats(np.square),
    exact=of_numbers(lambda mp, x: x * x),
    field=functions.square,
)
def _integer_power(eqn, x, e, z, p, *, y=2):  # a square has no parameter y
    """The rule of z = x ** y, y an integer: |y| roundings."""
    magnitude = np.abs(x[0])
    if y >= 0:
        passed_on = (magnitude + e[0]) ** y - magnitude**y
    else:
        passed_on = np.where(magnitude > e[0], (magnitude - e[0]) ** float(y) - magnitude ** float(y), np.inf)
    return passed_on + abs(y) * p.u * np.abs(z) + underflow(z, p)


@primitive(
    "one_minus_square",  # of JAX 0.11 and later
    kinds=Kind.FUNCTION | Kind.MAY_BE_EXACT,
    exact=of_numbers(lambda mp, x: 1 - x * x),
    field=functions.one_minus_square,
)
def _one_minus_square(eqn, x, e, y, p):
    return 2 * np.abs(x[0]) * e[0] + e[0] ** 2 + p.u * (x[0] ** 2 + np.abs(y))


@primitive(
    of_jax.pow_p,
    kinds=Kind.FUNCTION | Kind.LIMIT | Kind.ROOT,
    complex=of_complex.power,
    value=of_reals(np.power),
    exact=of_numbers(lambda mp, x, y: x ** int(y) if y == int(y) else mp.power(x, y)),
    field=functions.power,
)
def _power(eqn, x, e, y, p):
    base, exponent = np.abs(x[0]), x[1]
    # The relative error of x ** y = exp(y log x), with log x wrong by at most E_x / (x - E_x).
    change = np.abs(exponent) * e[0] / (base - e[0]) + np.abs(np.log(base)) * e[1]
    passed_on = np.where((base > e[0]) | (e[0] == 0), np.abs(y) * np.expm1(np.nan_to_num(change, nan=0.0)), np.inf)
    return passed_on + own(y, p)


@primitive(of_jax.atan2_p, kinds=Kind.FUNCTION, value=of_reals(np.arctan2), exact=mpmath("atan2"))
def _angle(eqn, x, e, y, p):
    radius = np.hypot(x[0], x[1])
    error = np.hypot(e[0], e[1])
    return np.where(radius > error, np.arcsin(np.minimum(error / radius, 1)), np.where(error > 0, np.pi, 0)) + own(y, p)


@primitive(
    of_jax.exp_p,
    kinds=_SATURATES,
    complex=of_complex.exponential,
    value=of_floats(np.exp),
    exact=of_numbers(_exponential),
    field=functions.exponential,
)
@primitive(
    of_jax.exp2_p,
    kinds=MONOTONE | Kind.SATURATES,
    complex=of_complex.power_of_two,
    value=of_reals(np.exp2),
    exact=of_numbers(lambda mp, x: _exponential(mp, x * mp.ln2)),
    field=functions.power_of_two,
)
@primitive(
    of_jax.logistic_p,
    kinds=_SATURATES,
    value=scipy("expit"),
    exact=of_numbers(lambda mp, x: 1 / (1 + _exponential(mp, -x))),
    field=functions.logistic,
)
def _decaying(eqn, x, e, y, p):
    """The bound of a function that is 0 at infinity only: a 0 elsewhere has underflowed."""
    return _monotone(eqn, x, e, y, p) + np.where((y == 0) & np.isfinite(x[0]), p.tiny, 0.0)


@primitive(
    of_jax.erfc_p,
    kinds=_SATURATES,
    value=scipy("erfc"),
    exact=of_numbers(lambda mp, x: mp.erfc(x) if abs(x) < _EXPONENT else 1 - mp.sign(x)),
    field=functions.complement_of_error_function,
)
def _complementary(eqn, x, e, y, p):
    # An allowance: nearly everybody's gelu and normal distribution has 1 - erf, whose error is that of its terms.
    return _monotone(eqn, x, e, y, p) + relative(p) * np.abs(1 - y)


@primitive(
    of_jax.tan_p,
    kinds=Kind.FUNCTION,
    complex=of_complex.tangent,
    value=of_floats(np.tan),
    exact=mpmath("tan"),
    field=functions.tangent,
)
def _tangent(eqn, x, e, y, p):
    pole_between = np.floor((x[0] - e[0]) / np.pi + 0.5) != np.floor((x[0] + e[0]) / np.pi + 0.5)
    return np.where(pole_between, np.inf, _monotone(eqn, x, e, y, p))
