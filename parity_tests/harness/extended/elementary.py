"""Functions of single numbers in extended precision."""

from __future__ import annotations

from typing import Any

from parity_tests.harness.extended.registry import Rule, elementwise

_SAME_NAMES = (
    "tanh",
    "log",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "digamma",
    "atan2",
)
# Beyond exp of this every format has overflowed, or underflowed, and mpmath would need as many bits for the exponent.
_BEYOND = 2**200


def _of_mpmath(name: str) -> Rule:
    return lambda mp, *x: getattr(mp, name)(*x)


def _exponential(mp: Any, x: Any) -> Any:
    if abs(x) > _BEYOND:
        return mp.inf if x > 0 else mp.zero
    return mp.exp(x)


@elementwise("exp")
def _exp(mp, x):
    return _exponential(mp, x)


@elementwise("exp2")
def _exp2(mp, x):
    return _exponential(mp, x * mp.ln2)


@elementwise("expm1")
def _expm1(mp, x):
    return _exponential(mp, x) - 1 if abs(x) > 1 else mp.expm1(x)


@elementwise("logistic")
def _logistic(mp, x):
    return 1 / (1 + _exponential(mp, -x))


@elementwise("sinh")
def _sinh(mp, x):
    return mp.sinh(x) if abs(x) < _BEYOND else mp.sign(x) * mp.inf


@elementwise("cosh")
def _cosh(mp, x):
    return mp.cosh(x) if abs(x) < _BEYOND else mp.inf


@elementwise("log2")
def _log2(mp, x):
    return mp.log(x) / mp.ln2


@elementwise("rsqrt")
def _rsqrt(mp, x):
    return 1 / mp.sqrt(x)


@elementwise("cbrt")
def _cbrt(mp, x):
    return mp.sign(x) * mp.cbrt(abs(x))


@elementwise("square")
def _square(mp, x):
    return x * x


@elementwise("one_minus_square")
def _one_minus_square(mp, x):
    return 1 - x * x


@elementwise("pow")
def _power(mp, x, y):
    if y == int(y):
        return x ** int(y)
    return mp.power(x, y)


@elementwise("erf")
def _erf(mp, x):
    return mp.erf(x) if abs(x) < _BEYOND else mp.sign(x)


@elementwise("erfc")
def _erfc(mp, x):
    return mp.erfc(x) if abs(x) < _BEYOND else 1 - mp.sign(x)


@elementwise("erfcx")
def _scaled_erfc(mp, x):
    return mp.erfc(x) * _exponential(mp, x * x)


@elementwise("erf_inv")
def _erf_inv(mp, x):
    return mp.erfinv(x)


@elementwise("lgamma")
def _log_gamma(mp, x):
    return mp.re(mp.loggamma(x))


@elementwise("polygamma")
def _polygamma(mp, order, x):
    return mp.psi(int(order), x)


@elementwise("bessel_i0e")
def _bessel_0(mp, x):
    return mp.besseli(0, x) * mp.exp(-abs(x))


@elementwise("bessel_i1e")
def _bessel_1(mp, x):
    return mp.besseli(1, x) * mp.exp(-abs(x))


for _name in _SAME_NAMES:
    elementwise(_name)(_of_mpmath(_name))
