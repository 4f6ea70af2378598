"""Arithmetic and elementary functions, entry by entry.

Conventions at kinks and ties are PyTorch's: the derivative of `abs` at 0 is 0, `maximum` of equal numbers shares its
derivative between them, `clamp` has the derivative 1 at its limits.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._checks import one_of
from jax_ref.aten._promotion import floating, is_complex, ordered, promoted
from jax_ref.aten.rounding import floor_divide as _floor_divide

Array = jax.Array


def abs(self: ArrayLike) -> Array:
    """|self|; of a complex number its modulus. The derivative at 0 is 0."""
    x = jnp.asarray(self)
    if not is_complex(x):
        return jnp.where(x == 0, jnp.zeros_like(x), jnp.abs(x))
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x.real), jnp.abs(jnp.where(zero, jnp.ones_like(x), x)))


def neg(self: ArrayLike) -> Array:
    """-self."""
    return jnp.negative(jnp.asarray(self))


def positive(self: ArrayLike) -> Array:
    """self."""
    return jnp.asarray(self)


def add(self: ArrayLike, other: ArrayLike, *, alpha: complex = 1) -> Array:
    """self + alpha other."""
    x, y = promoted(self, other)
    return x + y if alpha == 1 else x + y * jnp.asarray(alpha, x.dtype)


def sub(self: ArrayLike, other: ArrayLike, *, alpha: complex = 1) -> Array:
    """self - alpha other."""
    x, y = promoted(self, other)
    return x - y if alpha == 1 else x - y * jnp.asarray(alpha, x.dtype)


def rsub(self: ArrayLike, other: ArrayLike, alpha: complex = 1) -> Array:
    """other - alpha self."""
    return sub(other, self, alpha=alpha)


def mul(self: ArrayLike, other: ArrayLike) -> Array:
    """self other."""
    x, y = promoted(self, other)
    return x * y


def div(self: ArrayLike, other: ArrayLike, *, rounding_mode: str | None = None) -> Array:
    """self / other, or that rounded: "trunc" to 0, "floor" down."""
    one_of("div", "rounding_mode", rounding_mode, (None, "trunc", "floor"))
    if rounding_mode is None:
        x, y = floating(self, other)
        return x / y
    x, y = promoted(self, other)
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return lax.div(x, y)
    return jnp.trunc(lax.stop_gradient(x / y))


def pow(self: ArrayLike, exponent: ArrayLike) -> Array:
    """self to the power of exponent. The derivative of 0 ** 0 with respect to either is 0."""
    x, p = promoted(self, exponent)
    if isinstance(exponent, int | float) and float(exponent).is_integer() and 0 <= exponent <= 2**10:
        return lax.integer_pow(x, int(exponent)) if exponent else jnp.ones_like(x)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.power(x, p)
    if isinstance(exponent, int | float) and not is_complex(x):
        return jnp.power(x, jnp.asarray(exponent, x.dtype))
    zero = x == 0
    safe = jnp.where(zero, jnp.ones_like(x), x)
    # Of 0 the power is 0, 1 or infinite, whatever the exponent's neighbours are; its slope in x is left where it is
    # finite: that of an exponent of 1 and more.
    steep = zero & (p.real >= 1)
    at_zero = jnp.where(p == 0, jnp.ones_like(x), jnp.where(p.real > 0, jnp.zeros_like(x), jnp.full_like(x, jnp.inf)))
    slope = jnp.where(p == 1, jnp.ones_like(x), jnp.zeros_like(x))
    return jnp.where(zero, at_zero + jnp.where(steep, lax.stop_gradient(slope) * x, 0), jnp.power(safe, p))


def square(self: ArrayLike) -> Array:
    """self²."""
    x = jnp.asarray(self)
    return x * x


def sqrt(self: ArrayLike) -> Array:
    """√self."""
    return jnp.sqrt(*floating(self))


def rsqrt(self: ArrayLike) -> Array:
    """1 / √self."""
    (x,) = floating(self)
    return 1 / jnp.sqrt(x) if is_complex(x) else lax.rsqrt(x)


def reciprocal(self: ArrayLike) -> Array:
    """1 / self."""
    (x,) = floating(self)
    return 1 / x


def exp(self: ArrayLike) -> Array:
    """e ** self."""
    return jnp.exp(*floating(self))


def exp2(self: ArrayLike) -> Array:
    """2 ** self."""
    (x,) = floating(self)
    return jnp.exp(x * math.log(2)) if is_complex(x) else jnp.exp2(x)


@jax.custom_jvp
def _expm1(x: Array) -> Array:
    if not is_complex(x):
        return jnp.expm1(x)
    a, b = x.real, x.imag  # cos b - 1 is -2 sin²(b/2)
    half = jnp.sin(b / 2)
    return lax.complex(jnp.expm1(a) * jnp.cos(b) - 2 * half * half, jnp.exp(a) * jnp.sin(b))


@_expm1.defjvp
def _(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return _expm1(x), x_dot * jnp.exp(x)  # JAX has expm1(x) + 1, which cancels where x < 0


def expm1(self: ArrayLike) -> Array:
    """e ** self - 1."""
    return _expm1(*floating(self))


def log(self: ArrayLike) -> Array:
    """The natural logarithm."""
    return jnp.log(*floating(self))


def log2(self: ArrayLike) -> Array:
    """The logarithm to the base 2."""
    (x,) = floating(self)
    return jnp.log(x) / math.log(2) if is_complex(x) else jnp.log2(x)


def log10(self: ArrayLike) -> Array:
    """The logarithm to the base 10."""
    (x,) = floating(self)
    return jnp.log(x) / math.log(10) if is_complex(x) else jnp.log10(x)


def log1p(self: ArrayLike) -> Array:
    """log(1 + self)."""
    return jnp.log1p(*floating(self))


def sin(self: ArrayLike) -> Array:
    """The sine."""
    return jnp.sin(*floating(self))


def cos(self: ArrayLike) -> Array:
    """The cosine."""
    return jnp.cos(*floating(self))


def tan(self: ArrayLike) -> Array:
    """The tangent."""
    return jnp.tan(*floating(self))


def asin(self: ArrayLike) -> Array:
    """The inverse sine."""
    return jnp.arcsin(*floating(self))


def acos(self: ArrayLike) -> Array:
    """The inverse cosine."""
    return jnp.arccos(*floating(self))


def atan(self: ArrayLike) -> Array:
    """The inverse tangent."""
    return jnp.arctan(*floating(self))


def sinh(self: ArrayLike) -> Array:
    """The hyperbolic sine."""
    (x,) = floating(self)
    return _complex_sinh(x) if is_complex(x) else jnp.sinh(x)


def cosh(self: ArrayLike) -> Array:
    """The hyperbolic cosine."""
    (x,) = floating(self)
    return _complex_cosh(x) if is_complex(x) else jnp.cosh(x)


@jax.custom_jvp
def _complex_sinh(z: Array) -> Array:
    """sinh(a + ib) = sinh a cos b + i cosh a sin b; JAX subtracts exponentials, and little is left near a = 0."""
    y = jnp.sinh(z)
    return lax.complex(jnp.where(_is_near_0(z.real), _near_sinh(z.real) * jnp.cos(z.imag), y.real), y.imag)


@jax.custom_jvp
def _complex_cosh(z: Array) -> Array:
    """cosh(a + ib) = cosh a cos b + i sinh a sin b."""
    y = jnp.cosh(z)
    return lax.complex(y.real, jnp.where(_is_near_0(z.real), _near_sinh(z.real) * jnp.sin(z.imag), y.imag))


_complex_sinh.defjvps(lambda t, y, z: t * _complex_cosh(z))
_complex_cosh.defjvps(lambda t, y, z: t * _complex_sinh(z))


def _is_near_0(a: Array) -> Array:
    return jnp.abs(a) < 1


def _near_sinh(a: Array) -> Array:
    return jnp.sinh(jnp.where(_is_near_0(a), a, jnp.zeros_like(a)))


def tanh(self: ArrayLike) -> Array:
    """The hyperbolic tangent."""
    return jnp.tanh(*floating(self))


def asinh(self: ArrayLike) -> Array:
    """The inverse hyperbolic sine."""
    return jnp.arcsinh(*floating(self))


def acosh(self: ArrayLike) -> Array:
    """The inverse hyperbolic cosine."""
    return jnp.arccosh(*floating(self))


def atanh(self: ArrayLike) -> Array:
    """The inverse hyperbolic tangent."""
    return jnp.arctanh(*floating(self))


def atan2(self: ArrayLike, other: ArrayLike) -> Array:
    """The angle of the point (other, self)."""
    return jnp.arctan2(*floating(self, other))


def hypot(self: ArrayLike, other: ArrayLike) -> Array:
    """√(self² + other²) without overflow. The derivative at (0, 0) is 0."""
    x, y = promoted(self, other)
    # By the sum of the scaled squares, not by the larger and the smaller: with these JAX's second derivative is wrong
    # where both are equal.
    scale = lax.stop_gradient(jnp.maximum(jnp.abs(x), jnp.abs(y)))
    finite = (scale > 0) & jnp.isfinite(scale)
    scale = jnp.where(finite, scale, jnp.ones_like(scale))
    a, b = (jnp.where(finite, each / scale, jnp.ones_like(x)) for each in (x, y))
    root = scale * jnp.sqrt(a * a + b * b)
    return jnp.where(finite, root, jnp.hypot(lax.stop_gradient(x), lax.stop_gradient(y)))


def copysign(self: ArrayLike, other: ArrayLike) -> Array:
    """|self| with the sign of other."""
    x, y = floating(self, other)
    # The sign of a number is known before anything is traced; that of an array is a bit of it.
    negative = math.copysign(1, other) < 0 if isinstance(other, float | int) else jnp.signbit(y)
    return abs(x) * jnp.where(negative, -1, 1).astype(x.dtype)


def sign(self: ArrayLike) -> Array:
    """-1, 0 or 1."""
    return jnp.sign(*ordered(self))


def sgn(self: ArrayLike) -> Array:
    """self / |self|; 0 of 0, with the derivative 0."""
    x = jnp.asarray(self)
    if not is_complex(x):
        return jnp.sign(x)
    safe = jnp.where(x == 0, jnp.ones_like(x), x)
    return jnp.where(x == 0, jnp.zeros_like(x), safe / jnp.abs(safe))


def signbit(self: ArrayLike) -> Array:
    """True of negative numbers, and of -0."""
    return jnp.signbit(jnp.asarray(self))


def maximum(self: ArrayLike, other: ArrayLike) -> Array:
    """The larger; NaN if one is. Of equal ones each has half of the derivative."""
    return jnp.maximum(*ordered(self, other))


def minimum(self: ArrayLike, other: ArrayLike) -> Array:
    """The smaller; NaN if one is. Of equal ones each has half of the derivative."""
    return jnp.minimum(*ordered(self, other))


def fmax(self: ArrayLike, other: ArrayLike) -> Array:
    """The larger, or the one that is no NaN. Of equal ones the first has the derivative."""
    x, y = ordered(self, other)
    return jnp.where((x >= y) | jnp.isnan(y), x, y)


def fmin(self: ArrayLike, other: ArrayLike) -> Array:
    """The smaller, or the one that is no NaN. Of equal ones the first has the derivative."""
    x, y = ordered(self, other)
    return jnp.where((x <= y) | jnp.isnan(y), x, y)


def clamp(self: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """self, but at least min and at most max; max where they cross. The derivative at a limit is 1."""
    limits = [x for x in (min, max) if x is not None]
    x, *bounds = promoted(self, *limits)
    if min is not None:
        low = bounds.pop(0)
        x = jnp.where(x < low, low, x)
    if max is not None:
        high = bounds.pop(0)
        x = jnp.where(x > high, high, x)
    return x


def clamp_min(self: ArrayLike, min: ArrayLike) -> Array:
    """self, but at least min."""
    return clamp(self, min=min)


def clamp_max(self: ArrayLike, max: ArrayLike) -> Array:
    """self, but at most max."""
    return clamp(self, max=max)


def lerp(self: ArrayLike, end: ArrayLike, weight: ArrayLike) -> Array:
    """self + weight (end - self)."""
    x, y, w = promoted(self, end, weight)
    return x + w * (y - x)


def addcmul(self: ArrayLike, tensor1: ArrayLike, tensor2: ArrayLike, *, value: complex = 1) -> Array:
    """self + value tensor1 tensor2."""
    x, y, z = promoted(self, tensor1, tensor2)
    return x + jnp.asarray(value, x.dtype) * y * z


def addcdiv(self: ArrayLike, tensor1: ArrayLike, tensor2: ArrayLike, *, value: complex = 1) -> Array:
    """self + value tensor1 / tensor2."""
    x, y, z = promoted(self, tensor1, tensor2)
    return x + jnp.asarray(value, x.dtype) * (y / z)


def deg2rad(self: ArrayLike) -> Array:
    """Degrees in radians."""
    (x,) = floating(self)
    return x * (math.pi / 180)


def rad2deg(self: ArrayLike) -> Array:
    """Radians in degrees."""
    (x,) = floating(self)
    return x * (180 / math.pi)


def ldexp(self: ArrayLike, other: ArrayLike) -> Array:
    """self 2 ** other."""
    x, y = floating(self, other)
    return x * jnp.exp2(y)


def where(condition: ArrayLike, self: ArrayLike, other: ArrayLike) -> Array:
    """self where the condition is true, other elsewhere."""
    x, y = promoted(self, other)
    chosen, x, y = jnp.broadcast_arrays(jnp.asarray(condition).astype(bool), x, y)
    return jnp.where(chosen, x, y)


OPERATORS = {"_neg_view": neg}
