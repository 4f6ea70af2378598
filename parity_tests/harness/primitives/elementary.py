"""Rounding errors of elementary functions."""

from __future__ import annotations

import jax
import numpy as np

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.bound import complex as of_complex
from parity_tests.harness.primitives.bound.base import ELEMENTARY, change, relative, underflow
from parity_tests.harness.primitives.registry import Kind, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated

MONOTONE = Kind.FUNCTION | Kind.MONOTONE


def _own(y, p):
    infinite, own = np.isinf(y), relative(p) * np.abs(y) + underflow(y, p)
    return np.where(infinite, 0.0, own) if np.count_nonzero(infinite) else own


_BEYOND, _BEFORE = of_complex.beyond_both, of_complex.before_one


@primitive("cbrt", "erf_inv", "erfcx", "erfcinv", "ndtri", kinds=MONOTONE)
@primitive("expm1", kinds=MONOTONE | Kind.SATURATES, complex=of_complex.exponential_less_one)
@primitive("log1p", kinds=MONOTONE, complex=of_complex.logarithm_of_sum)
@primitive("rsqrt", kinds=MONOTONE, complex=of_complex.reciprocal_root)
@primitive("asin", "acos", kinds=MONOTONE, complex=of_complex.inverse(1, _BEYOND, 0.5))
@primitive("asinh", kinds=MONOTONE, complex=of_complex.inverse(1j, _BEYOND, 0.5))
@primitive("acosh", kinds=MONOTONE, complex=of_complex.inverse(1, _BEFORE, 0.5))
@primitive("atan", kinds=MONOTONE, complex=of_complex.inverse(1j, _BEYOND, 1))
@primitive("atanh", kinds=MONOTONE, complex=of_complex.inverse(1, _BEYOND, 1))
@primitive("sinh", kinds=MONOTONE, complex=of_complex.of_two(np.cosh))
@primitive("tanh", kinds=MONOTONE | Kind.SATURATES, complex=of_complex.hyperbolic_tangent)
@primitive("log", kinds=MONOTONE, complex=of_complex.logarithm)
@primitive("log2", kinds=MONOTONE, complex=of_complex.logarithm_to_base_two)
@primitive("sqrt", kinds=MONOTONE, complex=of_complex.root)
def _monotone(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return change(y, low, high) + _own(y, p)


@primitive("erf", kinds=MONOTONE | Kind.SATURATES)
def _error_function(eqn, x, e, y, p):
    # The polynomial in PyTorch's GELU errs by up to 5.7 eps where erf is nearly 1 (float32, AVX512, PyTorch 2.13).
    return _monotone(eqn, x, e, y, p) + _own(y, p)


@primitive("cosh", kinds=Kind.FUNCTION, complex=of_complex.of_two(np.sinh))
def _even(eqn, x, e, y, p):
    return np.cosh(np.abs(x[0]) + e[0]) - y + _own(y, p)


@primitive("sin", kinds=Kind.FUNCTION, complex=of_complex.of_two(np.cos))
def _sine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.cos(x[0])) * e[0] + e[0] ** 2 / 2, 2) + _own(y, p)


@primitive("cos", kinds=Kind.FUNCTION, complex=of_complex.of_two(np.sin))
def _cosine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.sin(x[0])) * e[0] + e[0] ** 2 / 2, 2) + _own(y, p)


def _complex_integer_power(eqn, x, e, y, p):
    n = eqn.params.get("y", 2)
    more = (of_complex.PRODUCT - 1) * abs(n) + (of_complex.QUOTIENT if n < 0 else 0)
    bound = _integer_power(eqn, x, e, y, p) + more * (p.u * np.abs(y) + underflow(y, p))
    if 0 <= n <= 2:
        return bound
    # Who does not multiply has exp(n log z), as the C library and PyTorch do: the logarithm's errors, n times.
    size = np.abs(np.log(np.where(x[0] == 0, 1, x[0])))
    of_exponent = abs(n) * (4 * p.u + (relative(p) + p.u) * size)
    return bound + np.abs(y) * np.expm1(of_exponent) + of_complex.own(y, p)


@primitive("integer_pow", "square", kinds=Kind.FUNCTION | Kind.PRODUCT, complex=_complex_integer_power)
def _integer_power(eqn, x, e, y, p):
    """The rule of x ** n, n an integer: |n| roundings."""
    n = eqn.params.get("y", 2)
    magnitude = np.abs(x[0])
    if n >= 0:
        passed_on = (magnitude + e[0]) ** n - magnitude**n
    else:
        passed_on = np.where(magnitude > e[0], (magnitude - e[0]) ** float(n) - magnitude ** float(n), np.inf)
    return passed_on + abs(n) * p.u * np.abs(y) + underflow(y, p)


@primitive("one_minus_square", kinds=Kind.FUNCTION)
def _one_minus_square(eqn, x, e, y, p):
    return 2 * np.abs(x[0]) * e[0] + e[0] ** 2 + p.u * (x[0] ** 2 + np.abs(y))


@primitive("pow", kinds=Kind.FUNCTION, complex=of_complex.power)
def _power(eqn, x, e, y, p):
    base, exponent = np.abs(x[0]), x[1]
    # The relative error of x ** y = exp(y log x), with log x wrong by at most E_x / (x - E_x).
    change = np.abs(exponent) * e[0] / (base - e[0]) + np.abs(np.log(base)) * e[1]
    passed_on = np.where((base > e[0]) | (e[0] == 0), np.abs(y) * np.expm1(np.nan_to_num(change, nan=0.0)), np.inf)
    return passed_on + _own(y, p)


@primitive("atan2", kinds=Kind.FUNCTION)
def _angle(eqn, x, e, y, p):
    radius = np.hypot(x[0], x[1])
    error = np.hypot(e[0], e[1])
    return np.where(radius > error, np.arcsin(np.minimum(error / radius, 1)), np.where(error > 0, np.pi, 0)) + _own(
        y, p
    )


@primitive("exp", kinds=MONOTONE | Kind.SATURATES, complex=of_complex.exponential)
@primitive("exp2", kinds=MONOTONE | Kind.SATURATES, complex=of_complex.power_of_two)
@primitive("logistic", kinds=MONOTONE | Kind.SATURATES)
def _decaying(eqn, x, e, y, p):
    """The bound of a function that is 0 at infinity only: a 0 elsewhere has underflowed."""
    return _monotone(eqn, x, e, y, p) + np.where((y == 0) & np.isfinite(x[0]), p.tiny, 0.0)


@primitive("erfc", kinds=MONOTONE | Kind.SATURATES)
def _complementary(eqn, x, e, y, p):
    # An allowance: nearly everybody's gelu and normal distribution has 1 - erf, whose error is that of its terms.
    return _monotone(eqn, x, e, y, p) + relative(p) * np.abs(1 - y)


@primitive("tan", kinds=Kind.FUNCTION, complex=of_complex.tangent)
def _tangent(eqn, x, e, y, p):
    pole_between = np.floor((x[0] - e[0]) / np.pi + 0.5) != np.floor((x[0] + e[0]) / np.pi + 0.5)
    return np.where(pole_between, np.inf, _monotone(eqn, x, e, y, p))


# The gamma function's logarithm and its derivatives ψ, ψ', ...: poles at 0, -1, -2, ...; the derivatives of odd order,
# n! Σ 1 / (x + k)ⁿ⁺¹, are positive everywhere. So ψ and those of even order rise between any two poles, and the
# logarithm and those of odd order are convex: they rise by what they do at an end at most, and fall by their slope.


def _of_gamma(eqn, x, e, y, p, convex):
    *order, at = x  # of polygamma the order comes first
    error = e[-1]
    low, high = (np.asarray(evaluated(eqn, *order, at + shift)) for shift in (-error, error))
    moved = change(y, low, high)
    if np.any(convex):
        _, slope = jax.jvp(lambda a: eqn.primitive.bind(*order, a, **eqn.params), (at,), (np.ones_like(at),))
        fall = np.abs(np.asarray(slope)) * error
        moved = np.where(convex, np.maximum(np.maximum(high - y, low - y), fall), moved)
    apart = (at - error > 0) | (np.floor(at - error) == np.floor(at + error))
    return np.where(apart, moved, np.inf) + _own(y, p)


@primitive("lgamma", kinds=Kind.FUNCTION)
def _log_gamma(eqn, x, e, y, p):
    # Everybody has a sum of a logarithm and corrections, which cancel near a zero of the function: XLA's is Lanczos'.
    z = np.where(x[0] < 0.5, -x[0], x[0] - 1)
    terms = (z + 0.5) * np.log(z + 7.5) + z + 7.5
    return _of_gamma(eqn, x, e, y, p, True) + ELEMENTARY * FLOAT64.u * terms


@primitive("digamma", kinds=Kind.FUNCTION)
def _digamma(eqn, x, e, y, p):
    # Likewise: ψ(x) = ψ(x + k) - 1 / x - ... - 1 / (x + k - 1), the first of them a logarithm.
    z = np.where(x[0] < 0.5, -x[0], x[0] - 1)
    return _of_gamma(eqn, x, e, y, p, False) + ELEMENTARY * p.u_acc * (np.log(z + 7.5) + 1)


@primitive("polygamma", kinds=Kind.FUNCTION)
def _polygamma(eqn, x, e, y, p):
    return _of_gamma(eqn, x, e, y, p, np.broadcast_to(x[0] % 2 == 1, y.shape))


@primitive("zeta", kinds=Kind.FUNCTION)
def _zeta(eqn, x, e, y, p):
    """Σ (k + q) ** -s, which falls as q rises; there is no bound if s may be off, or q may be 0."""
    s, q = x
    low, high = (np.asarray(evaluated(eqn, s, np.maximum(q + shift, 0.0))) for shift in (-e[1], e[1]))
    passed_on = np.where((q > e[1]) & (e[0] == 0), change(y, low, high), np.inf)
    # Everybody adds the first terms, ten or so, and what Euler and Maclaurin have for the others, which is less.
    return passed_on + 10 * p.u_acc * np.abs(y) + _own(y, p)


# Incomplete gamma and beta functions: monotone in every argument, with a power and an exponential before a series.


def _corners(eqn, x, e, signs):
    """The values at the arguments that make it least and greatest: signs says where each argument takes it."""
    moved = [[a + way * sign * b for a, b, sign in zip(x, e, signs, strict=True)] for way in (-1, 1)]
    moved = [[np.maximum(a, 0.0) for a in args] for args in moved]
    return (np.asarray(evaluated(eqn, *args)) for args in moved)


def _incomplete_gamma(signs, lower):
    def rule(eqn, x, e, y, p):
        low, high = _corners(eqn, x, e, signs)
        a, at = x
        with np.errstate(all="ignore"):
            logarithms = np.abs(a * np.log(at)) + at + np.abs(a * np.log(a)) + a  # of x^a exp(-x) / Γ(a)
        # Computed is the upper one where x > 1 and x > a, else the lower one; the other is 1 less that.
        computed = np.where(((at > 1) & (at > a)) == lower, 1 - y, y)
        own = relative(p) * (1 + np.nan_to_num(logarithms, posinf=0.0, nan=0.0)) * computed
        return np.maximum(high - y, y - low) + own + _own(y, p)

    return rule


primitive("igamma", kinds=Kind.FUNCTION)(_incomplete_gamma((-1, 1), lower=True))
primitive("igammac", kinds=Kind.FUNCTION)(_incomplete_gamma((1, -1), lower=False))


@primitive("regularized_incomplete_beta", kinds=Kind.FUNCTION)
def _incomplete_beta(eqn, x, e, y, p):
    low, high = _corners(eqn, [x[0], x[1], np.minimum(x[2], 1.0)], e, (-1, 1, 1))
    a, b, at = x
    with np.errstate(all="ignore"):
        logarithms = np.abs(a * np.log(at)) + np.abs(b * np.log1p(-at)) + (a + b) * np.abs(np.log(a + b)) + a + b
    own = relative(p) * (1 + np.nan_to_num(logarithms, posinf=0.0, nan=0.0)) * np.minimum(y, 1 - y)
    return np.where(x[2] + e[2] < 1, np.maximum(high - y, y - low), np.maximum(1 - y, y)) + own + _own(y, p)


@primitive("bessel_i0e", kinds=Kind.FUNCTION)
def _bessel_0(eqn, x, e, y, p):
    """exp(-|x|) I₀(x): even, and falls away from 0."""
    near, far = (np.asarray(evaluated(eqn, np.abs(x[0]) + shift)) for shift in (-e[0], e[0]))
    near = np.where(np.abs(x[0]) > e[0], near, 1.0)
    return np.maximum(near - y, y - far) + _own(y, p)


@primitive("bessel_i1e", kinds=Kind.FUNCTION)
def _bessel_1(eqn, x, e, y, p):
    """exp(-|x|) I₁(x): its second derivative is -1 at 0, and smaller elsewhere."""
    _, slope = jax.jvp(lambda a: eqn.primitive.bind(a, **eqn.params), (x[0],), (np.ones_like(x[0]),))
    return np.abs(np.asarray(slope)) * e[0] + e[0] ** 2 / 2 + _own(y, p)
