"""Special functions: of the gamma function, incomplete gamma and beta functions, Bessel functions."""

from __future__ import annotations

import jax
import numpy as np
from jax.extend.core import primitives as of_jax

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.bound.base import ELEMENTARY, change, own, relative
from parity_tests.harness.primitives.exact.arrays import mpmath, of_numbers
from parity_tests.harness.primitives.registry import Kind, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated

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
    return np.where(apart, moved, np.inf) + own(y, p)


@primitive(of_jax.lgamma_p, kinds=Kind.FUNCTION, exact=of_numbers(lambda mp, x: mp.re(mp.loggamma(x))))
def _log_gamma(eqn, x, e, y, p):
    # Everybody has a sum of a logarithm and corrections, which cancel near a zero of the function: XLA's is Lanczos'.
    z = np.where(x[0] < 0.5, -x[0], x[0] - 1)
    terms = (z + 0.5) * np.log(z + 7.5) + z + 7.5
    return _of_gamma(eqn, x, e, y, p, True) + ELEMENTARY * FLOAT64.u * terms


@primitive(of_jax.digamma_p, kinds=Kind.FUNCTION, exact=mpmath("digamma"))
def _digamma(eqn, x, e, y, p):
    # Likewise: ψ(x) = ψ(x + k) - 1 / x - ... - 1 / (x + k - 1), the first of them a logarithm.
    z = np.where(x[0] < 0.5, -x[0], x[0] - 1)
    return _of_gamma(eqn, x, e, y, p, False) + ELEMENTARY * p.u_acc * (np.log(z + 7.5) + 1)


@primitive(of_jax.polygamma_p, kinds=Kind.FUNCTION, exact=of_numbers(lambda mp, order, x: mp.psi(int(order), x)))
def _polygamma(eqn, x, e, y, p):
    return _of_gamma(eqn, x, e, y, p, np.broadcast_to(x[0] % 2 == 1, y.shape))


@primitive(of_jax.zeta_p, kinds=Kind.FUNCTION)
def _zeta(eqn, x, e, y, p):
    """Σ (k + q) ** -s, which falls as q rises; there is no bound if s may be off, or q may be 0."""
    s, q = x
    low, high = (np.asarray(evaluated(eqn, s, np.maximum(q + shift, 0.0))) for shift in (-e[1], e[1]))
    passed_on = np.where((q > e[1]) & (e[0] == 0), change(y, low, high), np.inf)
    # Everybody adds the first terms, ten or so, and what Euler and Maclaurin have for the others, which is less.
    return passed_on + 10 * p.u_acc * np.abs(y) + own(y, p)


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
        series = relative(p) * (1 + np.nan_to_num(logarithms, posinf=0.0, nan=0.0)) * computed
        return np.maximum(high - y, y - low) + series + own(y, p)

    return rule


primitive(of_jax.igamma_p, kinds=Kind.FUNCTION)(_incomplete_gamma((-1, 1), lower=True))
primitive(of_jax.igammac_p, kinds=Kind.FUNCTION)(_incomplete_gamma((1, -1), lower=False))


@primitive(of_jax.regularized_incomplete_beta_p, kinds=Kind.FUNCTION)
def _incomplete_beta(eqn, x, e, y, p):
    low, high = _corners(eqn, [x[0], x[1], np.minimum(x[2], 1.0)], e, (-1, 1, 1))
    a, b, at = x
    with np.errstate(all="ignore"):
        logarithms = np.abs(a * np.log(at)) + np.abs(b * np.log1p(-at)) + (a + b) * np.abs(np.log(a + b)) + a + b
    series = relative(p) * (1 + np.nan_to_num(logarithms, posinf=0.0, nan=0.0)) * np.minimum(y, 1 - y)
    return np.where(x[2] + e[2] < 1, np.maximum(high - y, y - low), np.maximum(1 - y, y)) + series + own(y, p)


@primitive(of_jax.bessel_i0e_p, kinds=Kind.FUNCTION, exact=of_numbers(lambda mp, x: mp.besseli(0, x) * mp.exp(-abs(x))))
def _bessel_0(eqn, x, e, y, p):
    """exp(-|x|) I₀(x): even, and falls away from 0."""
    near, far = (np.asarray(evaluated(eqn, np.abs(x[0]) + shift)) for shift in (-e[0], e[0]))
    near = np.where(np.abs(x[0]) > e[0], near, 1.0)
    return np.maximum(near - y, y - far) + own(y, p)


@primitive(of_jax.bessel_i1e_p, kinds=Kind.FUNCTION, exact=of_numbers(lambda mp, x: mp.besseli(1, x) * mp.exp(-abs(x))))
def _bessel_1(eqn, x, e, y, p):
    """exp(-|x|) I₁(x): its second derivative is -1 at 0, and smaller elsewhere."""
    _, slope = jax.jvp(lambda a: eqn.primitive.bind(a, **eqn.params), (x[0],), (np.ones_like(x[0]),))
    return np.abs(np.asarray(slope)) * e[0] + e[0] ** 2 / 2 + own(y, p)
