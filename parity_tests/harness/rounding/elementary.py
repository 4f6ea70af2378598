"""Rounding errors of elementary functions."""

from __future__ import annotations

import jax
import numpy as np

from parity_tests.harness.numbers.precision import FLOAT64, Precision
from parity_tests.harness.rounding.evaluation import evaluated

ELEMENTARY = 8  # roundings (in the accumulator's format) of an elementary function, before two to store and re-use it


def capped(y: np.ndarray, e: np.ndarray, precision: Precision) -> np.ndarray:
    """A bound of y; infinite where y may overflow, or is not defined."""
    if y.dtype.kind not in "fc":
        return e
    largest_possible = np.abs(y) + e
    if (largest_possible <= precision.largest).all():
        return e
    # An infinity that the program has itself, as in a mask, is exact; what has become one is not.
    exact = np.isinf(y) & (e == 0)
    return np.where(np.isnan(e) | (largest_possible > precision.largest) & ~exact | np.isnan(y), np.inf, e)


def underflow(y, p):
    """What a product may lose to underflow."""
    # A result that is exactly zero in float64 comes from a zero operand, and is exact in every format.
    return np.where(y == 0, 0.0, p.tiny)


def relative(p):
    """An elementary function's own relative error."""
    return 2 * p.u + ELEMENTARY * p.u_acc


def _own(y, p):
    return np.where(np.isinf(y), 0.0, relative(p) * np.abs(y) + underflow(y, p))


def change(y, low, high):
    """How far y may be off if it is one of these, or between them; not at all where all are one infinity."""
    return np.where((low == y) & (high == y), 0.0, np.maximum(np.abs(high - y), np.abs(low - y)))


def _monotone(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return change(y, low, high) + _own(y, p)


def _even(eqn, x, e, y, p):
    return np.cosh(np.abs(x[0]) + e[0]) - y + _own(y, p)


def _sine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.cos(x[0])) * e[0] + e[0] ** 2 / 2, 2) + _own(y, p)


def _cosine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.sin(x[0])) * e[0] + e[0] ** 2 / 2, 2) + _own(y, p)


def integer_power(eqn, x, e, y, p):
    """Of x ** n, n an integer: |n| roundings."""
    n = eqn.params.get("y", 2)
    magnitude = np.abs(x[0])
    if n >= 0:
        passed_on = (magnitude + e[0]) ** n - magnitude**n
    else:
        passed_on = np.where(magnitude > e[0], (magnitude - e[0]) ** float(n) - magnitude ** float(n), np.inf)
    return passed_on + abs(n) * p.u * np.abs(y) + underflow(y, p)


def _one_minus_square(eqn, x, e, y, p):
    return 2 * np.abs(x[0]) * e[0] + e[0] ** 2 + p.u * (x[0] ** 2 + np.abs(y))


def _power(eqn, x, e, y, p):
    base, exponent = np.abs(x[0]), x[1]
    # The relative error of x ** y = exp(y log x), with log x wrong by at most E_x / (x - E_x).
    change = np.abs(exponent) * e[0] / (base - e[0]) + np.abs(np.log(base)) * e[1]
    passed_on = np.where((base > e[0]) | (e[0] == 0), np.abs(y) * np.expm1(np.nan_to_num(change, nan=0.0)), np.inf)
    return passed_on + _own(y, p)


def _angle(eqn, x, e, y, p):
    radius = np.hypot(x[0], x[1])
    error = np.hypot(e[0], e[1])
    return np.where(radius > error, np.arcsin(np.minimum(error / radius, 1)), np.where(error > 0, np.pi, 0)) + _own(
        y, p
    )


def _decaying(eqn, x, e, y, p):
    """Of functions that are 0 at infinity only: what is 0 elsewhere has underflowed."""
    return _monotone(eqn, x, e, y, p) + np.where((y == 0) & np.isfinite(x[0]), p.tiny, 0.0)


def _complementary(eqn, x, e, y, p):
    # An allowance: nearly everybody's gelu and normal distribution has 1 - erf, whose error is that of its terms.
    return _monotone(eqn, x, e, y, p) + relative(p) * np.abs(1 - y)


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


def _log_gamma(eqn, x, e, y, p):
    # Everybody has a sum of a logarithm and corrections, which cancel near a zero of the function: XLA's is Lanczos'.
    z = np.where(x[0] < 0.5, -x[0], x[0] - 1)
    terms = (z + 0.5) * np.log(z + 7.5) + z + 7.5
    return _of_gamma(eqn, x, e, y, p, True) + ELEMENTARY * FLOAT64.u * terms


def _digamma(eqn, x, e, y, p):
    # Likewise: ψ(x) = ψ(x + k) - 1 / x - ... - 1 / (x + k - 1), the first of them a logarithm.
    z = np.where(x[0] < 0.5, -x[0], x[0] - 1)
    return _of_gamma(eqn, x, e, y, p, False) + ELEMENTARY * p.u_acc * (np.log(z + 7.5) + 1)


def _polygamma(eqn, x, e, y, p):
    return _of_gamma(eqn, x, e, y, p, np.broadcast_to(x[0] % 2 == 1, y.shape))


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


def _incomplete_beta(eqn, x, e, y, p):
    low, high = _corners(eqn, [x[0], x[1], np.minimum(x[2], 1.0)], e, (-1, 1, 1))
    a, b, at = x
    with np.errstate(all="ignore"):
        logarithms = np.abs(a * np.log(at)) + np.abs(b * np.log1p(-at)) + (a + b) * np.abs(np.log(a + b)) + a + b
    own = relative(p) * (1 + np.nan_to_num(logarithms, posinf=0.0, nan=0.0)) * np.minimum(y, 1 - y)
    return np.where(x[2] + e[2] < 1, np.maximum(high - y, y - low), np.maximum(1 - y, y)) + own + _own(y, p)


def _bessel_0(eqn, x, e, y, p):
    """exp(-|x|) I₀(x): even, and falls away from 0."""
    near, far = (np.asarray(evaluated(eqn, np.abs(x[0]) + shift)) for shift in (-e[0], e[0]))
    near = np.where(np.abs(x[0]) > e[0], near, 1.0)
    return np.maximum(near - y, y - far) + _own(y, p)


def _bessel_1(eqn, x, e, y, p):
    """exp(-|x|) I₁(x): its second derivative is -1 at 0, and smaller elsewhere."""
    _, slope = jax.jvp(lambda a: eqn.primitive.bind(a, **eqn.params), (x[0],), (np.ones_like(x[0]),))
    return np.abs(np.asarray(slope)) * e[0] + e[0] ** 2 / 2 + _own(y, p)


RULES = {
    **dict.fromkeys(
        (
            "tanh",
            "expm1",
            "log",
            "log1p",
            "sqrt",
            "cbrt",
            "erf",
            "erf_inv",
            "asin",
            "acos",
            "atan",
            "sinh",
            "asinh",
            "acosh",
            "atanh",
            "rsqrt",
        ),
        _monotone,
    ),
    **dict.fromkeys(("exp", "exp2", "logistic"), _decaying),
    **dict.fromkeys(("cosh",), _even),
    **dict.fromkeys(("sin",), _sine),
    **dict.fromkeys(("cos",), _cosine),
    **dict.fromkeys(("integer_pow", "square"), integer_power),
    **dict.fromkeys(("one_minus_square",), _one_minus_square),
    **dict.fromkeys(("pow",), _power),
    **dict.fromkeys(("atan2",), _angle),
    **dict.fromkeys(("erfc",), _complementary),
    **dict.fromkeys(("tan",), _tangent),
    **dict.fromkeys(("lgamma",), _log_gamma),
    **dict.fromkeys(("digamma",), _digamma),
    **dict.fromkeys(("polygamma",), _polygamma),
    **dict.fromkeys(("igamma",), _incomplete_gamma((-1, 1), lower=True)),
    **dict.fromkeys(("igammac",), _incomplete_gamma((1, -1), lower=False)),
    **dict.fromkeys(("regularized_incomplete_beta",), _incomplete_beta),
    **dict.fromkeys(("bessel_i0e",), _bessel_0),
    **dict.fromkeys(("bessel_i1e",), _bessel_1),
}
