"""Rounding errors of complex numbers: bounds of the modulus of the error.

The rules of `rounding` that follow |x| and E alone hold as they are: sums, rearrangements, selections. Others round
more often than for real numbers (N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.6):

    x y     √5 u |x y|              R. Brent, C. Percival, P. Zimmermann, Math. Comp. 76, 2007; 3 here
    x / y   (4 √2 + 5) u |x / y|    both operands scaled by max |parts of y|, which cancels; Smith's method has less
    X Y     √2 γ_2K |X| |Y|         each part is a real sum of 2 K products, and |a c| + |b d| <= |a + i b| |c + i d|

An elementary function passes on an error |δ| <= E exactly, by its addition theorem, since |f(δ)| has its maximum over
the disc where all terms of its series add up:

    exp(z + δ) - exp z    = exp z (exp δ - 1)                             |exp δ - 1| <= exp E - 1
    sinh(z + δ) - sinh z  = sinh z (cosh δ - 1) + cosh z sinh δ           |cosh δ - 1| <= cosh E - 1, |sinh δ| <= sinh E
    tanh(z + δ) - tanh z  = s (1 - tanh² z) / (1 + s tanh z), s = tanh δ  |s| <= tan E
    log(z + δ) - log z    = log(1 + δ / z)                                <= -log(1 - E / |z|)
    √(z + δ) - √z         = √z (√(1 + δ / z) - 1)                         <= |√z| (1 - √(1 - E / |z|))
    1/√(z + δ) - 1/√z     = 1/√z (1 / √(1 + δ / z) - 1)                   <= |1/√z| (1 / √(1 - E / |z|) - 1)
    sign(z + δ) - sign z                                                  <= 2 sin(arcsin(E / |z|) / 2)

likewise of the sine, cosine and tangent. Inverses of these pass on E times the largest slope over the disc at most, and
the slopes are 1 / √((a - z) (a + z)) and 1 / ((a - z) (a + z)), for a = 1 or i:

    arcsin, arccos, arcosh     E / √((|1 - z| - E) (|1 + z| - E))         arsinh: i for 1
    artanh                     E / ((|1 - z| - E) (|1 + z| - E))          arctan: i for 1

There is no bound where a disc meets a function's cut, since the two sides may be on different branches: of a logarithm
or a root along the negative real axis, of an inverse along that axis through a and -a. A function's own error is that
of the real functions that it is made of, two of them for each part, multiplied: 3 times a real one's.
"""

from __future__ import annotations

import math

import numpy as np

from parity_tests.harness.primitives.bound.base import relative, underflow

PRODUCT = 3  # roundings of a product
QUOTIENT = 11  # and of a quotient


def own(y, p):
    """An elementary function's own error."""
    return 3 * (relative(p) * np.abs(y) + underflow(y, p))


def exponential(eqn, x, e, y, p):
    return np.abs(y) * np.expm1(e[0]) + own(y, p)


def power_of_two(eqn, x, e, y, p):
    """exp(z log 2), and who computes it so has rounded the exponent twice."""
    return np.abs(y) * np.expm1(math.log(2) * (e[0] + 2 * p.u * np.abs(x[0]))) + own(y, p)


def power(eqn, x, e, y, p):
    """exp(w log z): the logarithm's errors as in `logarithm`, times w, and those of w, times the logarithm."""
    z, w = x
    share = _from_the_cut(z, e[0])
    size = np.abs(np.log(np.where(z == 0, 1, z)))
    moved = np.where(share < 1, -np.log1p(-np.where(share < 1, share, 0)), np.inf) + 4 * p.u + relative(p) * size
    exponent = (np.abs(w) + e[1]) * moved + e[1] * size + PRODUCT * p.u * np.abs(w) * size
    return np.abs(y) * np.expm1(exponent) + own(y, p)


def of_two(cofunction):
    """A rule for sine or cosine, hyperbolic or not, by the addition theorem; `cofunction` is the other one."""

    def rule(eqn, x, e, y, p):
        return np.abs(y) * (np.cosh(e[0]) - 1) + np.abs(cofunction(x[0])) * np.sinh(e[0]) + own(y, p)

    return rule


def _moved(tangent, slope, error):
    """|f(z + δ) - f(z)| for f = tan or tanh, of which `slope` is 1 ± f²; infinite where a pole may be met."""
    s = np.where(error < math.pi / 2, np.tan(np.minimum(error, 1.5)), np.inf)
    room = 1 - np.abs(tangent) * s
    return np.where((error <= 1.5) & (room > 0), s * np.abs(slope) / np.where(room > 0, room, 1), np.inf)


def hyperbolic_tangent(eqn, x, e, y, p):
    return _moved(y, 1 / np.cosh(x[0]) ** 2, e[0]) + own(y, p)


def tangent(eqn, x, e, y, p):
    return _moved(y, 1 / np.cos(x[0]) ** 2, e[0]) + own(y, p)


def _from_the_cut(z, error):
    """E / |z|; infinite where the disc meets the negative real axis, or 0."""
    meets = (np.real(z) - error <= 0) & (np.abs(np.imag(z)) <= error)
    share = error / np.abs(z)
    return np.where(meets | ~(share < 1), np.inf, share)


def logarithm(eqn, x, e, y, p):
    share = _from_the_cut(x[0], e[0])
    passed_on = np.where(share < 1, -np.log1p(-np.where(share < 1, share, 0)), np.inf)
    # The real part is the logarithm of |z|, which has errors of its own: 4 u, as in `abs`.
    return passed_on + 4 * p.u + own(y, p)


def logarithm_to_base_two(eqn, x, e, y, p):
    """log z / log 2, and who computes it so has rounded the divisor and the quotient."""
    return logarithm(eqn, x, e, y, p) / math.log(2) + 2 * p.u * np.abs(y)


def root(eqn, x, e, y, p):
    share = _from_the_cut(x[0], e[0])
    passed_on = np.where(share < 1, np.abs(y) * (1 - np.sqrt(1 - np.where(share < 1, share, 0))), np.inf)
    return passed_on + own(y, p)


def sign(eqn, x, e, y, p):
    """z / |z|, which turns by arcsin(E / |z|) at most, or is anything on the unit circle."""
    share = np.where(e[0] < np.abs(x[0]), e[0] / np.abs(x[0]), 1.0)
    turned = np.where(share < 1, 2 * np.sin(np.arcsin(share) / 2), np.where(e[0] > 0, 2.0, 0.0))
    # The modulus has 4 roundings, as in `abs`; who divides by it may take it for a complex number.
    return turned + (QUOTIENT + 4) * p.u * np.abs(y) + QUOTIENT * underflow(y, p)


def reciprocal_root(eqn, x, e, y, p):
    share = _from_the_cut(x[0], e[0])
    passed_on = np.where(share < 1, np.abs(y) * (1 / np.sqrt(1 - np.where(share < 1, share, 0)) - 1), np.inf)
    return passed_on + own(y, p)


def logarithm_of_sum(eqn, x, e, y, p):
    """log(1 + z), whose real part is taken of |1 + z|² - 1 where z is small."""
    share = _from_the_cut(1 + x[0], e[0])
    return np.where(share < 1, -np.log1p(-np.where(share < 1, share, 0)), np.inf) + own(y, p)


def exponential_less_one(eqn, x, e, y, p):
    return np.abs(y + 1) * np.expm1(e[0]) + own(y, p)


def inverse(point, meets_the_cut, power):
    """A rule for the inverse of a function of sines, with the slope (point² - z²) ** -power but for its sign.

    `meets_the_cut(u, error)`: whether a disc does that meets the axis through the two points, where its centre is at u
    along that axis.
    """

    def rule(eqn, x, e, y, p):
        z, error = x[0], e[0]
        along, across = (np.real(z), np.imag(z)) if point == 1 else (np.imag(z), np.real(z))
        near, far = (np.abs(z - s * point) - error for s in (1, -1))
        room = (near > 0) & (far > 0) & ~((np.abs(across) <= error) & meets_the_cut(along, error))
        slope = np.where(room, near * far, 1) ** -power
        return np.where(room, error * slope, np.inf) + own(y, p)

    return rule


def beyond_both(along, error):
    """The cut of most inverses: from each point on, away from the other."""
    return np.abs(along) + error >= 1


def before_one(along, error):
    """The branch cut of the inverse hyperbolic cosine: from 1 on towards the left."""
    return along - error <= 1
