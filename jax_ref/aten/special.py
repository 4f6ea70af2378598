"""Special functions. Where JAX has no derivative, or one that loses digits, the rule is here."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special as jsp
from jax.typing import ArrayLike

from jax_ref.aten._promotion import floating, is_complex

Array = jax.Array
_NEGATIVE_TERMS = 256


def sigmoid(self: ArrayLike) -> Array:
    """1 / (1 + exp(-self)). The derivative is s (1 - s), as everybody's, which has no digits where s rounds to 1."""
    (x,) = floating(self)
    if is_complex(x):
        return 1 / (1 + jnp.exp(-x))
    return jax.nn.sigmoid(x)


def logit(self: ArrayLike, eps: float | None = None) -> Array:
    """log(z / (1 - z)) with z = self, clamped to [eps, 1 - eps] if eps is given."""
    (x,) = floating(self)
    if eps is not None:
        low, high = jnp.asarray(eps, x.dtype), jnp.asarray(1 - eps, x.dtype)
        x = jnp.where(x < low, low, jnp.where(x > high, high, x))
    return jnp.log(x / (1 - x))


def erf(self: ArrayLike) -> Array:
    """The error function, 2/√π ∫₀ˣ exp(-t²) dt."""
    return jsp.erf(*floating(self))


def erfc(self: ArrayLike) -> Array:
    """1 - erf(self)."""
    return jsp.erfc(*floating(self))


def erfinv(self: ArrayLike) -> Array:
    """The inverse of erf."""
    return jsp.erfinv(*floating(self))


@jax.custom_jvp
def _erfcx_near(x: Array) -> Array:
    return jnp.exp(x**2) * jsp.erfc(x)


@_erfcx_near.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    y = _erfcx_near(x)
    return y, (2 * x * y - 2 / math.sqrt(math.pi)) * x_dot


def _erfcx(x: Array) -> Array:
    # From 2 on, where erfc(x) loses digits and then vanishes, by 1 / (√π (x + (1/2) / (x + 1 / (x + ...)))), in whose
    # derivative nothing cancels.
    near = x < 2
    far = jnp.where(near, 2.0, x)
    tail = far
    for n in range(60, 0, -1):
        tail = far + (n / 2) / tail
    return jnp.where(near, _erfcx_near(jnp.where(near, x, 0)), 1 / (math.sqrt(math.pi) * tail))


def special_erfcx(self: ArrayLike) -> Array:
    """exp(self²) erfc(self)."""
    return _erfcx(*floating(self))


def special_ndtri(self: ArrayLike) -> Array:
    """The argument at which the normal distribution has this probability."""
    return jsp.ndtri(*floating(self))


def special_log_ndtr(self: ArrayLike) -> Array:
    """The logarithm of the normal distribution.

    By erfcx, since the series of `jax.scipy.special.log_ndtr` has eleven digits at -21 in float64.
    """
    return _log_ndtr(*floating(self))


@jax.custom_jvp
def _log_ndtr(x: Array) -> Array:
    low, high = jnp.where(x < 0, x, 0), jnp.where(x < 0, 0, x)
    of_low = jnp.log(_erfcx(-low / math.sqrt(2)) / 2) - low * low / 2
    return jnp.where(x < 0, of_low, jnp.log1p(-jsp.erfc(high / math.sqrt(2)) / 2))


@_log_ndtr.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    low, high = jnp.where(x < 0, x, 0), jnp.where(x < 0, 0, x)
    of_low = math.sqrt(2 / math.pi) / _erfcx(-low / math.sqrt(2))
    of_high = jnp.exp(-high * high / 2) / math.sqrt(2 * math.pi) / jsp.ndtr(high)
    return _log_ndtr(x), jnp.where(x < 0, of_low, of_high) * x_dot


def special_entr(self: ArrayLike) -> Array:
    """-self log(self); 0 of 0, -infinity of negative numbers, where there is no derivative."""
    return _entr(*floating(self))


@jax.custom_jvp
def _entr(x: Array) -> Array:
    safe = jnp.where(x > 0, x, jnp.ones_like(x))
    beyond = jnp.where(x == 0, jnp.zeros_like(x), jnp.full_like(x, -jnp.inf))
    return jnp.where(jnp.isnan(x), x, jnp.where(x > 0, -x * jnp.log(safe), beyond))


@_entr.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _entr(x), (-jnp.log(x) - 1) * x_dot


def _times_log(x: Array, y: Array, logarithm) -> Array:
    """x logarithm(y), and 0, with derivatives of 0, where x is 0 and the logarithm is infinite or no number."""
    zero = (x == 0) & ~jnp.isnan(y) & ~jnp.isfinite(logarithm(lax.stop_gradient(y)))
    inside = jnp.where(zero, jnp.ones_like(y), y)
    return jnp.where(zero, jnp.zeros_like(x), x * logarithm(inside))


def xlogy(self: ArrayLike, other: ArrayLike) -> Array:
    """self log(other); 0 where self is 0."""
    x, y = floating(self, other)
    return _times_log(x, y, jnp.log)


def special_xlog1py(self: ArrayLike, other: ArrayLike) -> Array:
    """self log(1 + other); 0 where self is 0."""
    x, y = floating(self, other)
    return _times_log(x, y, jnp.log1p)


def sinc(self: ArrayLike) -> Array:
    """sin(π self) / (π self); 1 at 0."""
    (x,) = floating(self)
    return _sinc(x)


@jax.custom_jvp
def _sinc(x: Array) -> Array:
    safe = jnp.where(x == 0, jnp.ones_like(x), x)
    return jnp.where(x == 0, jnp.ones_like(x), jnp.sin(math.pi * safe) / (math.pi * safe))


@_sinc.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _sinc(x), _sinc_slope(x) * x_dot


def _sinc_slope(x: Array) -> Array:
    """(cos(πx) - sinc(x)) / x, near 0 by its series, in which nothing cancels."""
    near = jnp.abs(x) < 0.25
    safe = jnp.where(near, jnp.ones_like(x), x)
    far = (jnp.cos(math.pi * safe) - jnp.sin(math.pi * safe) / (math.pi * safe)) / safe
    small = jnp.where(near, x, jnp.zeros_like(x))
    square = (math.pi * small) ** 2
    total = jnp.zeros_like(x)
    for k in range(12, 0, -1):  # Σ (-1)^k 2k π^2k x^(2k-1) / (2k+1)!
        total = (-1) ** k * 2 * k / math.factorial(2 * k + 1) + square * total
    return jnp.where(near, math.pi**2 * small * total, far)


def lgamma(self: ArrayLike) -> Array:
    """The logarithm of |Γ(self)|."""
    return _lgamma(*floating(self))


@jax.custom_jvp
def _lgamma(x: Array) -> Array:
    return jsp.gammaln(x)


@_lgamma.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _lgamma(x), x_dot * _digamma(x)  # JAX's digamma has a wrong derivative at negative numbers


def digamma(self: ArrayLike) -> Array:
    """The derivative of lgamma. At 0 it is infinite, at negative integers NaN."""
    return _digamma(*floating(self))


@jax.custom_jvp
def _digamma(x: Array) -> Array:
    at_zero = jnp.copysign(jnp.full_like(x, jnp.inf), -x)
    return jnp.where(x == 0, at_zero, jsp.digamma(jnp.where(x == 0, jnp.ones_like(x), x)))


@_digamma.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _digamma(x), x_dot * polygamma(1, x)


def polygamma(n: int, self: ArrayLike) -> Array:
    """The n-th derivative of digamma; NaN below -256."""
    (x,) = floating(self)
    if n == 0:
        return digamma(x)
    # JAX's zeta function is for positive numbers: the terms of negative ones are added apart, as many as there are.
    steps = jnp.arange(_NEGATIVE_TERMS, dtype=x.dtype).reshape((1,) * x.ndim + (-1,))
    below = jnp.expand_dims(x, -1) + steps
    negative = below < 0
    powers = lax.integer_pow(jnp.where(negative, below, jnp.ones_like(below)), -(n + 1))
    shifted = x + jnp.sum(lax.stop_gradient(negative), axis=-1).astype(x.dtype)
    total = jnp.sum(jnp.where(negative, powers, jnp.zeros_like(powers)), axis=-1)
    total += jsp.zeta(jnp.full_like(x, n + 1), shifted)
    return (-1) ** (n + 1) * math.factorial(n) * jnp.where(x > -_NEGATIVE_TERMS, total, jnp.nan)


def mvlgamma(self: ArrayLike, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension p."""
    (x,) = floating(self)
    constant = p * (p - 1) / 4 * math.log(math.pi)
    return constant + sum((_lgamma(x - i / 2) for i in range(p)), start=jnp.zeros_like(x))


def special_zeta(self: ArrayLike, other: ArrayLike) -> Array:
    """Hurwitz' zeta function, Σ (k + other) ** -self."""
    return jsp.zeta(*floating(self, other))


def igamma(self: ArrayLike, other: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function."""
    return jsp.gammainc(*floating(self, other))


def igammac(self: ArrayLike, other: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function."""
    return jsp.gammaincc(*floating(self, other))


@jax.custom_jvp
def _i0e(x: Array) -> Array:
    return jsp.i0e(x)


@_i0e.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _i0e(x), x_dot * (_i1e(x) - jnp.sign(x) * _i0e(x))


@jax.custom_jvp
def _i1e(x: Array) -> Array:
    return jsp.i1e(x)


@_i1e.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _i1e(x), x_dot * (_i0e(x) - _over(x, _i1e, jnp.exp(-jnp.abs(x))) - jnp.sign(x) * _i1e(x))


@jax.custom_jvp
def _i0(x: Array) -> Array:
    return jnp.exp(jnp.abs(x)) * jsp.i0e(x)


@_i0.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _i0(x), x_dot * _i1(x)


@jax.custom_jvp
def _i1(x: Array) -> Array:
    return jnp.exp(jnp.abs(x)) * jsp.i1e(x)


@_i1.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _i1(x), x_dot * (_i0(x) - _over(x, _i1, jnp.ones_like(x)))


def _over(x: Array, i1: Callable[[Array], Array], scale: Array) -> Array:
    """i1(x) / x, for I₁ times a scale; near 0 by the series of I₁(x) / x, whose derivatives keep their digits."""
    near = jnp.abs(x) < 1
    far, quarter = jnp.where(near, jnp.ones_like(x), x), jnp.where(near, x / 2, jnp.zeros_like(x)) ** 2
    total = jnp.zeros_like(x)
    for k in range(9, -1, -1):  # Σ (x/2)^2k / (2 k! (k+1)!)
        total = 1 / (2 * math.factorial(k) * math.factorial(k + 1)) + quarter * total
    return jnp.where(near, scale * total, i1(far) / far)


def i0(self: ArrayLike) -> Array:
    """The modified Bessel function I₀."""
    return _i0(*floating(self))


def special_i0e(self: ArrayLike) -> Array:
    """exp(-|self|) I₀(self)."""
    return _i0e(*floating(self))


def special_i1(self: ArrayLike) -> Array:
    """The modified Bessel function I₁."""
    return _i1(*floating(self))


def special_i1e(self: ArrayLike) -> Array:
    """exp(-|self|) I₁(self)."""
    return _i1e(*floating(self))


@jax.custom_jvp
def _logistic(x: Array) -> Array:
    return jax.nn.sigmoid(x)


@_logistic.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _logistic(x), x_dot * _logistic_slope(x)


@jax.custom_jvp
def _logistic_slope(x: Array) -> Array:
    """s(x) s(-x), for s the logistic function: s (1 - s) has no digits where s rounds to 1."""
    return jax.nn.sigmoid(x) * jax.nn.sigmoid(-x)


@_logistic_slope.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    slope = _logistic_slope(x)
    return slope, -x_dot * slope * jnp.tanh(x / 2)


@jax.custom_jvp
def _logaddexp(x: Array, y: Array) -> Array:
    return jnp.logaddexp(x, y)


@_logaddexp.defjvp
def _(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    apart = _difference(x, y)
    return _logaddexp(x, y), x_dot * _logistic(apart) + y_dot * _logistic(-apart)


def _difference(x: Array, y: Array) -> Array:
    """x - y; 0 of two equal infinities."""
    both = jnp.isinf(x) & (x == y)
    return jnp.where(both, jnp.zeros_like(x), x) - jnp.where(both, jnp.zeros_like(y), y)


def logaddexp(self: ArrayLike, other: ArrayLike) -> Array:
    """log(exp(self) + exp(other))."""
    x, y = floating(self, other)
    if is_complex(x):
        larger = jnp.where(x.real >= y.real, x, y)
        smaller = jnp.where(x.real >= y.real, y, x)
        return larger + jnp.log(1 + jnp.exp(smaller - larger))
    return _logaddexp(x, y)


@jax.custom_jvp
def _logaddexp2(x: Array, y: Array) -> Array:
    return jnp.logaddexp2(x, y)


@_logaddexp2.defjvp
def _(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    apart = math.log(2) * _difference(x, y)
    return _logaddexp2(x, y), x_dot * _logistic(apart) + y_dot * _logistic(-apart)


def logaddexp2(self: ArrayLike, other: ArrayLike) -> Array:
    """log₂(2 ** self + 2 ** other)."""
    return _logaddexp2(*floating(self, other))
