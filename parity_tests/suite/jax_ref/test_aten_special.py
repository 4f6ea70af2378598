"""The special functions of `jax_ref.aten` against mpmath, in float64: values, first and second derivatives.

A derivative is one of mpmath's own function, by differences in 20 digits, so it shares no formula with ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import pytest

from jax_ref.aten import OPERATORS, polynomials, special
from jax_ref.aten._registry import operators_of
from parity_tests.suite.marks import fast

# Of the sensitivity |f| + |x f'|, what is allowed: 14 bits more than one rounding of the argument and one of the result
# cause. A constant of float32, or a series that is cut off, is wrong by more.
_ALLOWED = 2.0**-38
_DIGITS = 20
Number = Any  # of mpmath, which has no types
_ORDERS = ("value", "first derivative", "second derivative")


@dataclass(frozen=True)
class Exact:
    """A function of mpmath's, and the arguments at which ours is compared with it.

    Attributes:
        function: of the argument by which it is differentiated.
        points: those arguments.
        ours: our function of that argument; None: the operator itself.
        orders: how many derivatives are compared, besides the values.
    """

    function: Callable[[Number], Number]
    points: Sequence[float]
    ours: Callable[[jax.Array], jax.Array] | None = None
    orders: int = 2


def _xlogy(x: Number, y: Number) -> Number:
    return x * mpmath.log(y) if x else mpmath.mpf(0)


def _ndtr(x: Number) -> Number:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _log_ndtr(x: Number) -> Number:
    return mpmath.log(_ndtr(x)) if x < 0 else mpmath.log1p(-_ndtr(-x))


def _erfcx(x: Number) -> Number:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def _ndtri(p: Number) -> Number:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)


def _log_gamma(x: Number) -> Number:
    return mpmath.log(abs(mpmath.gamma(x)))


def _sinc(x: Number) -> Number:
    return mpmath.sincpi(x)


def _sigmoid(x: Number) -> Number:
    return 1 / (1 + mpmath.exp(-x))


def _multivariate(x: Number) -> Number:
    return 3 * mpmath.log(mpmath.pi) / 2 + sum(_log_gamma(x - mpmath.mpf(i) / 2) for i in range(3))


def _add_in_base(base: Number, y: float) -> Callable[[Number], Number]:
    return lambda x: mpmath.log(base**x + base ** mpmath.mpf(y)) / mpmath.log(base)


def _scaled(n: int) -> Callable[[Number], Number]:
    return lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(n, x)


def _gamma_below(a: float) -> Callable[[Number], Number]:
    return lambda x: mpmath.gammainc(a, 0, x, regularized=True)


def _gamma_above(a: float) -> Callable[[Number], Number]:
    return lambda x: mpmath.gammainc(a, x, mpmath.inf, regularized=True)


_REAL = (-20.0, -3.3, -1.0, -0.4, -1e-9, 1e-9, 0.3, 1.0, 2.5, 19.0)
_MODERATE = (-4.5, -1.9, -0.6, -1e-9, 1e-9, 0.2, 1.1, 1.99, 2.01, 3.7)
_POSITIVE = (1e-9, 0.07, 0.5, 1.0, 1.5, 2.0, 3.7, 12.0, 350.0)
_PROBABILITIES = (1e-12, 0.003, 0.2, 0.5, 0.71, 0.96, 0.9999)
_BETWEEN_POLES = (-7.3, -2.5, -0.8, -0.01, *_POSITIVE)
EXACT = {
    # As everybody's its derivatives lose digits where it is almost 1, see docs/found.md, 36, and at its middle.
    "sigmoid": Exact(_sigmoid, (-20.0, -3.3, -1.0, -0.4, 0.3, 1.0, 2.5)),
    "logit": Exact(lambda p: mpmath.log(p / (1 - p)), _PROBABILITIES),
    "erf": Exact(mpmath.erf, _MODERATE),
    "erfc": Exact(mpmath.erfc, (*_MODERATE, 9.0, 20.0)),
    "erfinv": Exact(mpmath.erfinv, (-0.9999, -0.5, -1e-9, 1e-9, 0.3, 0.85, 0.999999)),
    "special_erfcx": Exact(_erfcx, (*_MODERATE, 40.0, 1e5)),
    "special_ndtri": Exact(_ndtri, _PROBABILITIES),
    "special_log_ndtr": Exact(_log_ndtr, (*_REAL, -21.0, 1.7)),
    "special_entr": Exact(lambda x: -_xlogy(x, x), _POSITIVE),
    "xlogy": Exact(lambda y: _xlogy(mpmath.mpf(1.7), y), _POSITIVE, lambda y: special.xlogy(1.7, y)),
    "special_xlog1py": Exact(
        lambda y: _xlogy(mpmath.mpf(1.7), 1 + y), (-0.9, *_POSITIVE), lambda y: special.special_xlog1py(1.7, y)
    ),
    "sinc": Exact(_sinc, (-3.3, -0.26, -0.24, -1e-9, 1e-9, 0.2, 0.25, 0.7, 1.4, 8.2)),
    "lgamma": Exact(_log_gamma, _BETWEEN_POLES),
    "digamma": Exact(mpmath.digamma, _BETWEEN_POLES),
    "polygamma": Exact(lambda x: mpmath.polygamma(2, x), _BETWEEN_POLES, lambda x: special.polygamma(2, x)),
    "mvlgamma": Exact(_multivariate, (1.1, 1.6, 2.0, 3.7, 12.0, 350.0), lambda x: special.mvlgamma(x, 3)),
    "special_zeta": Exact(
        lambda q: mpmath.zeta(2.5, q), (0.07, 0.5, 1.0, 3.7, 12.0), lambda q: special.special_zeta(2.5, q)
    ),
    "igamma": Exact(_gamma_below(2.5), _POSITIVE[1:-1], lambda x: special.igamma(2.5, x)),
    "igammac": Exact(_gamma_above(2.5), _POSITIVE[:-1], lambda x: special.igammac(2.5, x)),
    "i0": Exact(lambda x: mpmath.besseli(0, x), _REAL),
    "special_i1": Exact(lambda x: mpmath.besseli(1, x), _REAL),
    "special_i0e": Exact(_scaled(0), _REAL),
    "special_i1e": Exact(_scaled(1), _REAL),
    "logaddexp": Exact(_add_in_base(mpmath.e, 0.3), _REAL, lambda x: special.logaddexp(x, 0.3)),
    "logaddexp2": Exact(_add_in_base(mpmath.mpf(2), 0.3), _REAL, lambda x: special.logaddexp2(x, 0.3)),
}


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True), mpmath.workdps(_DIGITS):
        yield


def disagreements(exact: Exact, ours: Callable[[jax.Array], jax.Array]) -> list[str]:
    """Where a function or a derivative is another than mpmath's, in words."""

    def all_orders(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        first = jax.jacfwd(ours)
        return ours(x), first(x), jax.jacfwd(first)(x)

    found = jax.jit(jax.vmap(all_orders))(jnp.asarray(exact.points))
    wrong = []
    for i, x in enumerate(exact.points):
        near = mpmath.taylor(exact.function, mpmath.mpf(x), exact.orders + 1, chop=False)
        right = [c * math.factorial(k) for k, c in enumerate(near)]
        for order in range(exact.orders + 1):
            mine = mpmath.mpf(float(found[order][i]))
            sensitivity = abs(right[order]) + abs(x * right[order + 1])
            if not abs(mine - right[order]) <= _ALLOWED * sensitivity:
                text = f"{_ORDERS[order]} at {x}: {mpmath.nstr(mine, 12)}, mpmath {mpmath.nstr(right[order], 12)}"
                wrong.append(text)
    return wrong


@fast("erf", "sinc", "xlogy")
@pytest.mark.parametrize("name", EXACT)
def test_a_special_function_and_its_derivatives_are_mpmath_s(name):
    exact = EXACT[name]
    assert disagreements(exact, exact.ours or OPERATORS[f"aten::{name}"]) == []


def test_every_special_function_is_compared():
    assert set(EXACT) == set(operators_of(special))


POLYNOMIALS = {
    "special_chebyshev_polynomial_t": lambda n, x: mpmath.chebyt(n, x),
    "special_chebyshev_polynomial_u": lambda n, x: mpmath.chebyu(n, x),
    "special_chebyshev_polynomial_v": lambda n, x: mpmath.chebyu(n, x) - mpmath.chebyu(n - 1, x),
    "special_chebyshev_polynomial_w": lambda n, x: mpmath.chebyu(n, x) + mpmath.chebyu(n - 1, x),
    "special_hermite_polynomial_h": lambda n, x: mpmath.hermite(n, x),
    "special_hermite_polynomial_he": lambda n, x: (
        mpmath.hermite(n, x / mpmath.sqrt(2)) / mpmath.sqrt(2) ** n
    ),
    "special_laguerre_polynomial_l": lambda n, x: mpmath.laguerre(n, 0, x),
    "special_legendre_polynomial_p": lambda n, x: mpmath.legendre(n, x),
}  # fmt: skip


def _of_degree(name: str, n: int) -> tuple[Exact, Callable[[jax.Array], jax.Array]]:
    """A polynomial, shifted if its name says so, by mpmath and by us."""
    unshifted = POLYNOMIALS[name.replace("shifted_", "")]
    inner = (lambda x: 2 * x - 1) if "shifted" in name else (lambda x: x)
    exact = Exact(lambda x: unshifted(n, inner(x)), (-0.9, -0.3, 0.2, 0.6, 0.95))
    return exact, lambda x: OPERATORS[f"aten::{name}"](x, n)


@fast("special_chebyshev_polynomial_t", "special_laguerre_polynomial_l", "special_hermite_polynomial_h")
@pytest.mark.parametrize("name", operators_of(polynomials))
def test_a_polynomial_and_its_derivatives_are_mpmath_s(name):
    for n in (2, 5):
        assert disagreements(*_of_degree(name, n)) == []


PLANTED = {
    "a constant of float32": lambda x: special.logaddexp(x, 0.3) * (1 + 2.0**-25),
    "a part that is not differentiated": lambda x: 0.3 + jnp.log1p(jax.lax.stop_gradient(jnp.exp(x - 0.3))),
    "digits of a second derivative that cancel": lambda x: jnp.logaddexp(x, 0.3),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_told(name):
    assert disagreements(EXACT["logaddexp"], PLANTED[name]) != []
