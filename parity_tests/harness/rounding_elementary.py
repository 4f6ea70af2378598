"""Rounding errors of elementary functions, and how the oracle evaluates them."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import jax
import numpy as np

from parity_tests.harness.precision import FLOAT64

ELEMENTARY = 8  # roundings (in the accumulator's format) of an elementary function, before two to store and re-use it


def _scipy(name: str) -> Callable:
    # Imported at the first use: importing scipy.special adds a warning filter, which `numerics.pinned` takes back.
    def f(x):
        return getattr(importlib.import_module("scipy.special"), name)(x)

    return f


# The same IEEE operations in NumPy, correctly rounded too, and without a compilation for every shape.
_IN_NUMPY: dict[str, Callable] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    # Where XLA's float64 is off by more than `ELEMENTARY` roundings: log1p by 240 at -0.41, erf_inv by 290 at 1 - 1e-5.
    "log1p": np.log1p,
    "atanh": np.arctanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "exp2": np.exp2,
    "erfc": _scipy("erfc"),
    "erf_inv": _scipy("erfinv"),
}


def evaluated(eqn, *x):
    """The value, or values, of a primitive at float64 arguments."""
    direct = _IN_NUMPY.get(eqn.primitive.name)
    return direct(*x) if direct else eqn.primitive.bind(*x, **eqn.params)


def underflow(y, p):
    """What a product may lose to underflow."""
    # A result that is exactly zero in float64 comes from a zero operand, and is exact in every format.
    return np.where(y == 0, 0.0, p.tiny)


def _own(y, p):
    return (2 * p.u + ELEMENTARY * p.u_acc) * np.abs(y) + underflow(y, p)


def _monotone(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return np.maximum(np.abs(high - y), np.abs(low - y)) + _own(y, p)


def _even(eqn, x, e, y, p):
    return np.cosh(np.abs(x[0]) + e[0]) - y + _own(y, p)


def _sine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.cos(x[0])) * e[0] + e[0] ** 2 / 2, 2) + _own(y, p)


def _cosine(eqn, x, e, y, p):
    return np.minimum(np.abs(np.sin(x[0])) * e[0] + e[0] ** 2 / 2, 2) + _own(y, p)


def _integer_power(eqn, x, e, y, p):
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


def _differentiated(eqn, x, e, y, p):
    # To first order, doubled: the second-order term is smaller than the first wherever the bound is of any use.
    *order, at = x  # of polygamma the order comes first
    _, slope = jax.jvp(lambda a: eqn.primitive.bind(*order, a, **eqn.params), (at,), (np.ones_like(at),))
    bound = 2 * np.abs(np.asarray(slope)) * e[-1] + _own(y, p)
    if eqn.primitive.name in ("lgamma", "digamma"):
        # XLA has Lanczos' sum: near a zero of the function its terms cancel, and the reference itself errs by theirs.
        z = np.where(at < 0.5, -at, at - 1)
        t = np.log(z + 7.5)
        terms = (z + 0.5) * t + z + 7.5 if eqn.primitive.name == "lgamma" else t + 1
        bound = bound + ELEMENTARY * FLOAT64.u * terms
    return bound


RULES = {
    **dict.fromkeys(
        (
            "tanh",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log1p",
            "logistic",
            "sqrt",
            "cbrt",
            "erf",
            "erfc",
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
    **dict.fromkeys(("cosh",), _even),
    **dict.fromkeys(("sin",), _sine),
    **dict.fromkeys(("cos",), _cosine),
    **dict.fromkeys(("integer_pow", "square"), _integer_power),
    **dict.fromkeys(("one_minus_square",), _one_minus_square),
    **dict.fromkeys(("pow",), _power),
    **dict.fromkeys(("atan2",), _angle),
    **dict.fromkeys(("tan", "lgamma", "digamma", "polygamma"), _differentiated),
}
