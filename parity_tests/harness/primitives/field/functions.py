"""Powers, roots, exponentials and what is made of them, in finite fields.

exp(x) is e^x modulo p, x modulo q, and e a random square: so that exp(a + b) = exp(a) exp(b), and nothing is known of
exp(1); log is its inverse, modulo q, and a random function modulo p. tanh and the like are made of exp. Powers of
squares are squares, so that the root of a product is the product of the roots. sin and cos are those of an angle whose
half has a random tangent.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.field.fields import Field, NoInverse, Residues
from parity_tests.harness.primitives.field.numbers import Model, Number, Operand, Pair, Unmodelled
from parity_tests.harness.primitives.field.rules import Rule, entrywise, in_both

_ONE, _TWO = (np.array(n, np.uint64) for n in (1, 2))


def power(model: Model, eqn: core.JaxprEqn, x: Number, y: Operand) -> Sequence[Pair]:
    """x^y modulo p: of a square for every exponent that has a residue modulo q, of other numbers for integers."""
    exponent = eqn.invars[1]
    if isinstance(exponent, core.Literal) and float(exponent.val).is_integer():
        _check_exponent(int(exponent.val))
        return in_both(model, [x], lambda field, r: [field.power(r[0], int(exponent.val))])
    if (x.real < 0).any():
        raise Unmodelled("a power of a negative number")
    (p, _), q = _where_defined(x).residues, y.residues[1] if isinstance(y, Number) else None
    if q is None:
        raise Unmodelled("a power by a root")
    return [(model.fields[0].power(_square(model.fields[0], p), q), None)]


def _check_exponent(n: int) -> None:
    if abs(n) >= 2**63:
        raise Unmodelled("a power of so many factors")


def _square(field: Field, x: Residues) -> Residues:
    """The same numbers, if all are squares."""
    field.root(x)
    return x


def _divisor(x: Number) -> Number:
    """The number, but 1 where it is 0 in the run, too: the quotient is no number there."""
    return Number(x.each(lambda r: np.where(np.asarray(x.real == 0, bool) & (r == 0), _ONE, r)), x.real)


def quotient(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
    """The rule of x / y."""
    return in_both(model, [x, _divisor(y)], lambda field, r: [field.mul(r[0], field.inverse(r[1]))])


def remainder(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
    """The rule of x - n y, n = trunc(x / y) as in the run."""
    n = whole_quotients(x.real, y.real)
    if not (np.abs(n) < 2.0**53).all():
        raise Unmodelled("a remainder of so large a quotient")
    return in_both(model, [x, model.constants(n, n), y], lambda field, r: [field.sub(r[0], field.mul(r[1], r[2]))])


def whole_quotients(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """trunc(x / y) as float64, of floats or of the numbers of a run; NaN where it is none."""

    def of_numbers(a: Any, b: Any) -> float:
        return float(int(a / b)) if b != 0 and a - a == 0 and b - b == 0 else np.nan

    return np.asarray(np.frompyfunc(of_numbers, 2, 1)(x, y), float)


def integer_power(model: Model, eqn: core.JaxprEqn, x: Number, *, y: int) -> Sequence[Pair]:
    """The rule of x^y, y an integer."""
    _check_exponent(y)
    return in_both(model, [_divisor(x) if y < 0 else x], lambda field, r: [field.power(r[0], y)])


def _of_p(f: Callable[[Field, Residues], Residues]) -> Rule:
    """The rule of a function of residues modulo p, whose result has none modulo q."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        return [(f(model.fields[0], x.residues[0]), None)]

    return rule


def _where_defined(x: Number, least: int = 0) -> Number:
    """The numbers, but 1 in place of those of which the run has no root or logarithm: nobody may ask for one there.

    Else a number that is negative in the run would be a square wherever its root, which is NaN, is computed.
    """
    undefined = ~np.asarray(x.real >= least, bool)
    return Number(x.each(lambda r: np.where(undefined, _ONE, r)), x.real)


def cube_root(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The root of numbers that are not negative in the run."""
    if (x.real < 0).any():
        raise Unmodelled("a cube root of a negative number")
    third = model.fields[1].number(1, 3)
    return _of_p(lambda field, r: field.power(_square(field, r), third))(model, eqn, _where_defined(x))


def inverse_root(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of 1 / sqrt(x)."""
    return _of_p(lambda field, r: field.inverse(field.root(r)))(model, eqn, _where_defined(x))


def square_root(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The root modulo p, and modulo q where all are squares, as of the constants under a root."""
    x = _where_defined(x)
    ((p, _),), q = _of_p(Field.root)(model, eqn, x), x.residues[1]
    try:
        return [(p, None if q is None else model.fields[1].root(q))]
    except NoInverse:
        return [(p, None)]


def _of_exp(f: Callable[[Field, Residues], Residues], factor: int = 1) -> Rule:
    """The rule of a rational function of exp(factor x), which is a power of e."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        of_p = model.fields[0]
        return [(f(of_p, of_p.power(model.exponential(x), factor)), None)]

    return rule


def logarithm(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """Modulo q the exponent: log(a b) = log a + log b; modulo p a random function."""
    p, _ = _where_defined(x, -1 if eqn.primitive.name == "log1p" else 0).residues
    return [model.log(model.fields[0].add(p, _ONE) if eqn.primitive.name == "log1p" else p)]


def logarithm_to_base_two(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of log(x) / log(2)."""
    logs, of_two = model.log(_where_defined(x).residues[0]), model.log_of(2)
    p, q = (f.mul(y, f.inverse(two)) for f, y, two in zip(model.fields, logs, of_two, strict=True))
    return [(p, q)]


def power_of_two(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of exp(x log(2))."""
    exponent = in_both(model, [x, Number(model.log_of(2), x.real)], lambda field, r: [field.mul(*r)])
    return [(model.exponential(Number(exponent[0], x.real)), None)]


def _of_half_angle(f: Callable[[Field, Residues], Residues]) -> Rule:
    """The rule of sin, cos or tan, by the tangent of half the angle."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        tangent, _ = model.random_function("sin and cos", x)
        return [(f(model.fields[0], tangent), None)]

    return rule


def _half(field: Field, x: Residues) -> Residues:
    return field.mul(x, field.number(1, 2))


def _sine(field: Field, t: Residues) -> Residues:
    return field.mul(field.mul(_TWO, t), field.inverse(field.add(_ONE, field.mul(t, t))))


def _cosine(field: Field, t: Residues) -> Residues:
    square = field.mul(t, t)
    return field.mul(field.sub(_ONE, square), field.inverse(field.add(_ONE, square)))


def _of_erf(f: Callable[[Field, Residues], Residues]) -> Rule:
    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        erf, _ = model.random_function("erf", x)
        return [(f(model.fields[0], erf), None)]

    return rule


def _products(f: Callable[..., Residues]) -> Rule:
    """The rule of products along axes, by the multiplication of a field and the equation's parameters."""
    return lambda model, eqn, x, **params: in_both(model, [x], lambda field, r: [f(r[0], field.mul, **params)])


def _of_all(x: Residues, mul: Callable[..., Residues], axes: tuple[int, ...], **_: Any) -> Residues:
    kept = [size for i, size in enumerate(x.shape) if i not in axes]
    rows = np.moveaxis(x, axes, range(len(axes)))
    return functools.reduce(mul, rows.reshape(math.prod(rows.shape[: len(axes)]), *kept), np.ones(kept, np.uint64))


def _running(x: Residues, mul: Callable[..., Residues], axis: int, reverse: bool) -> Residues:
    rows = np.moveaxis(x, axis, 0)
    rows = rows[::-1] if reverse else rows
    if not len(rows):
        return x
    y = np.stack([*itertools.accumulate(rows, mul)])
    return np.moveaxis(y[::-1] if reverse else y, 0, axis)


product_along, running_product = _products(_of_all), _products(_running)
square = entrywise(lambda field, x: field.mul(x, x))
one_minus_square = entrywise(lambda field, x: field.sub(_ONE, field.mul(x, x)))
exponential = _of_exp(lambda field, e: e)
exponential_less_one = _of_exp(lambda field, e: field.sub(e, _ONE))
logistic = _of_exp(lambda field, e: field.inverse(field.add(_ONE, e)), -1)
hyperbolic_tangent = _of_exp(lambda field, e: field.mul(field.sub(e, _ONE), field.inverse(field.add(e, _ONE))), 2)
hyperbolic_sine = _of_exp(lambda field, e: _half(field, field.sub(e, field.inverse(e))))
hyperbolic_cosine = _of_exp(lambda field, e: _half(field, field.add(e, field.inverse(e))))
sine, cosine = _of_half_angle(_sine), _of_half_angle(_cosine)
tangent = _of_half_angle(lambda field, t: field.mul(_sine(field, t), field.inverse(_cosine(field, t))))
error_function = _of_erf(lambda field, erf: erf)
complement_of_error_function = _of_erf(lambda field, erf: field.sub(_ONE, erf))
