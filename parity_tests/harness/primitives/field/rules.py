"""The equations of a program in finite fields: the residues of their results.

exp(x) is e^x modulo p, x modulo q, and e a random square: so that exp(a + b) = exp(a) exp(b), and nothing is known of
exp(1); log is its inverse. tanh and the like are made of it. Powers of squares are squares, so that the root of a
product is the product of the roots. sin and cos are those of an angle whose half has a random tangent. Any other
function is a random one: f(x) is f(x), and nothing more is known of it. What is linear, or bilinear, is added up by
NumPy or JAX, exactly; `matrices` has systems and factorizations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.field import matrices
from parity_tests.harness.primitives.field.fields import Field, NoInverse, Residues
from parity_tests.harness.primitives.field.numbers import Model, Number, Operand, Pair, Unmodelled, is_finite
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.primitives.value.evaluated import evaluated

_MOST = 2**21  # terms of a sum: with limbs of 16 bits it is exact in float64


# Functions that have a finite limit at an infinity.
HAVE_LIMITS = frozenset(
    {"div", "exp", "expm1", "logistic", "tanh", "erf", "erfc", "rsqrt", "integer_pow", "pow", "atan"}
)


def chosen(which: np.ndarray, cases: Sequence[Operand], real: np.ndarray) -> Number:
    """The entries of the cases that are counted in `which`."""
    index = np.asarray(which).astype(int)
    numbers = [x for x in cases if isinstance(x, Number)]

    def of(i: int) -> Residues | None:
        known = [np.broadcast_to(r, index.shape) for x in numbers if (r := x.residues[i]) is not None]
        return np.take_along_axis(np.stack(known), index[None], 0)[0] if len(known) == len(cases) else None

    return Number((of(0), of(1)), real)


# (model, equation, operands...) -> the residues of each result.
Rule = Callable[..., Sequence[Pair]]


def _in_both(
    model: Model, operands: Sequence[Operand], f: Callable[[Field, Sequence[np.ndarray]], list[Residues]]
) -> Sequence[Pair]:
    """The results in each field in which all operands have residues."""

    def of(i: int) -> Sequence[Residues | None] | None:
        given = [x.residues[i] if isinstance(x, Number) else x for x in operands]
        known = [x for x in given if x is not None]
        return f(model.fields[i], known) if len(known) == len(given) else None

    p, q = of(0), of(1)
    count = len(p or q or [None])
    return [*zip(p or [None] * count, q or [None] * count, strict=True)]


def _entrywise(f: Callable[..., Residues]) -> Rule:
    """The rule of a function of residues in either field, (field, residues...) -> residues."""
    return lambda model, eqn, *operands: _in_both(model, operands, lambda field, r: [f(field, *r)])


def _linear(model: Model, eqn: core.JaxprEqn, *operands: Operand) -> Sequence[Pair]:
    """Sums of entries, or of their negatives: exact in float64, as NumPy or JAX adds them up."""
    if sum(x.real.size for x in operands if isinstance(x, Number)) > _MOST:
        raise Unmodelled("a sum of so many terms")

    def summed(field: Field, residues: Sequence[np.ndarray]) -> list[Residues]:
        y = evaluated(eqn, *(r.astype(np.float64) if r.dtype == np.uint64 else r for r in residues))
        return [np.mod(a, float(field.p)).astype(np.uint64) for a in (y if eqn.primitive.multiple_results else [y])]

    return _in_both(model, operands, summed)


def _bilinear(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
    """Sums of products, by limbs of 16 bits."""
    if max(x.real.size, y.real.size) > _MOST:
        raise Unmodelled("a sum of so many products")

    def product(field: Field, residues: Sequence[np.ndarray]) -> list[Residues]:
        limbs = [[(r & np.uint64(0xFFFF)).astype(float), (r >> np.uint64(16)).astype(float)] for r in residues]
        total = np.uint64(0)
        for i, a in enumerate(limbs[0]):
            for j, b in enumerate(limbs[1]):
                part = np.asarray(evaluated(eqn, a, b)).astype(np.uint64) % field.p
                total = (total + part * np.uint64(pow(2, 16 * (i + j), field.p))) % field.p
        return [np.asarray(total)]

    return _in_both(model, (x, y), product)


def rule_of(name: str) -> Rule:
    """Return the rule of a primitive: its own, or that of its kind.

    Raises:
        Unmodelled: there is none.
    """
    if name in _RULES:
        return _RULES[name]
    if has(name, Kind.BILINEAR):
        return _bilinear
    if has(name, Kind.LINEAR) or name == "scatter-add":
        return _linear
    if has(name, Kind.FUNCTION):
        return functools.partial(_function, name)
    raise Unmodelled(f"the JAX primitive {name!r}")


def _function(name: str, model: Model, eqn: core.JaxprEqn, *operands: Number) -> Sequence[Pair]:
    if not all(isinstance(x, Number) for x in operands):
        raise Unmodelled(f"the JAX primitive {name!r} of integers")
    if name not in HAVE_LIMITS and not all(is_finite(x.real).all() for x in operands):
        raise Unmodelled(f"the JAX primitive {name!r} of an infinity or NaN")
    return [model.random_function(f"{name} {eqn.params}", *operands)]


def _selected(model: Model, eqn: core.JaxprEqn, which: np.ndarray, *cases: Number) -> Sequence[Pair]:
    return [chosen(np.broadcast_to(which, cases[0].real.shape), cases, cases[0].real).residues]


def _extremum(largest: bool) -> Rule:
    def rule(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
        second = np.asarray(y.real > x.real if largest else y.real < x.real)
        return [chosen(second, [x, y], x.real).residues]

    return rule


def _clamped(model: Model, eqn: core.JaxprEqn, low: Number, x: Number, high: Number) -> Sequence[Pair]:
    which = np.where((x.real > high.real) | (low.real > high.real), 2, np.where(x.real < low.real, 0, 1))
    return [chosen(which, [low, x, high], x.real).residues]


def _reduced_extremum(largest: bool) -> Rule:
    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        axes = tuple(eqn.params["axes"])

        def rows(a: np.ndarray) -> np.ndarray:
            moved = np.moveaxis(a, axes, tuple(range(-len(axes), 0)))
            return moved.reshape(*moved.shape[: a.ndim - len(axes)], -1)

        real = rows(x.real)
        at = (np.argmax(real, -1) if largest else np.argmin(real, -1))[..., None]
        return [x.each(lambda r: np.take_along_axis(rows(r), at, -1)[..., 0])]

    return rule


def _absolute(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    negative = x.real < 0
    return _in_both(model, [x], lambda field, r: [np.where(negative, field.sub(_ZERO, r[0]), r[0])])


def _sorted(model: Model, eqn: core.JaxprEqn, *operands: Operand) -> Sequence[Pair]:
    if eqn.params["num_keys"] != 1:
        raise Unmodelled("a sort by several keys")
    axis, key = eqn.params["dimension"], operands[0]
    order = np.argsort(key.real if isinstance(key, Number) else key, axis, kind="stable")
    nothing: Pair = (None, None)  # of integers, which the run has
    return [
        x.each(lambda r: np.take_along_axis(r, order, axis)) if isinstance(x, Number) else nothing for x in operands
    ]


def _itself(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    return [x.residues]


def _power(model: Model, eqn: core.JaxprEqn, x: Number, y: Operand) -> Sequence[Pair]:
    """x^y modulo p: of a square for every exponent that has a residue modulo q, of other numbers for integers."""
    exponent = eqn.invars[1]
    if isinstance(exponent, core.Literal) and float(exponent.val).is_integer():
        _check_exponent(int(exponent.val))
        return _in_both(model, [x], lambda field, r: [field.power(r[0], int(exponent.val))])
    if (x.real < 0).any():
        raise Unmodelled("a power of a negative number")
    (p, _), q = _where_defined(x).residues, y.residues[1] if isinstance(y, Number) else None
    if p is None or q is None:
        raise Unmodelled("a power of a logarithm, or by a root")
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


def _quotient(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
    return _in_both(model, [x, _divisor(y)], lambda field, r: [field.mul(r[0], field.inverse(r[1]))])


def _integer_power(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    n = eqn.params["y"]
    _check_exponent(n)
    return _in_both(model, [_divisor(x) if n < 0 else x], lambda field, r: [field.power(r[0], n)])


def _of_p(f: Callable[[Field, Residues], Residues]) -> Rule:
    """The rule of a function of residues modulo p, whose result has none modulo q."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        p, _ = x.residues
        if p is None:
            raise Unmodelled(f"{eqn.primitive.name} of a logarithm")
        return [(f(model.fields[0], p), None)]

    return rule


def _where_defined(x: Number, least: int = 0) -> Number:
    """The numbers, but 1 in place of those of which the run has no root or logarithm: nobody may ask for one there.

    Else a number that is negative in the run would be a square wherever its root, which is NaN, is computed.
    """
    undefined = ~np.asarray(x.real >= least, bool)
    return Number(x.each(lambda r: np.where(undefined, _ONE, r)), x.real)


def _cube_root(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    if (x.real < 0).any():
        raise Unmodelled("a cube root of a negative number")
    third = model.fields[1].number(1, 3)
    return _of_p(lambda field, r: field.power(_square(field, r), third))(model, eqn, _where_defined(x))


def _inverse_root(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    return _of_p(lambda field, r: field.inverse(field.root(r)))(model, eqn, _where_defined(x))


def _square_root(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The root modulo p, and modulo q where all are squares, as of the constants under a root."""
    x = _where_defined(x)
    ((p, _),), q = _of_p(Field.root)(model, eqn, x), x.residues[1]
    try:
        return [(p, None if q is None else model.fields[1].root(q))]
    except NoInverse:
        return [(p, None)]


def _of_exp(f: Callable[[Field, Residues], Residues], factor: int) -> Rule:
    """The rule of a rational function of exp(factor x), which is a power of e."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        of_p = model.fields[0]
        return [(f(of_p, of_p.power(model.exponential(x), factor)), None)]

    return rule


def _log(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The exponent modulo q: log(a b) = log a + log b."""
    p, _ = _where_defined(x, -1 if eqn.primitive.name == "log1p" else 0).residues
    if p is None:
        return [model.random_function(eqn.primitive.name, x)]
    of_p, of_q = model.fields
    log = of_p.log(of_p.add(p, _ONE) if eqn.primitive.name == "log1p" else p, model.signed)
    return [(None, of_q.mul(log, of_q.inverse(model.log_of_e)))]


def _halves(f: Callable[[Field, Residues], Residues]) -> Rule:
    """The rule of sin, cos or tan, by the tangent of half the angle."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        tangent, _ = model.random_function("tan of a half", x)
        assert tangent is not None
        return [(f(model.fields[0], tangent), None)]

    return rule


_ZERO, _ONE, _TWO = (np.array(n, np.uint64) for n in range(3))


def _half(field: Field, x: Residues) -> Residues:
    return field.mul(x, field.number(1, 2))


def _sine(field: Field, t: Residues) -> Residues:
    return field.mul(field.mul(_TWO, t), field.inverse(field.add(_ONE, field.mul(t, t))))


def _cosine(field: Field, t: Residues) -> Residues:
    square = field.mul(t, t)
    return field.mul(field.sub(_ONE, square), field.inverse(field.add(_ONE, square)))


def _error_function(complement: bool) -> Rule:
    def rule(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
        erf, _ = model.random_function("erf", x)
        assert erf is not None
        return [(model.fields[0].sub(_ONE, erf) if complement else erf, None)]

    return rule


def _solved(model: Model, eqn: core.JaxprEqn, a: Number, b: Number) -> Sequence[Pair]:
    return _in_both(model, [a, b], lambda field, r: matrices.solved(matrices.of_a_field(field), eqn, *r))


def _pivoted(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    *_, orders = matrices.pivoted(matrices.OF_A_RUN, eqn, x.real)
    nothing: Pair = (None, None)  # of integers, which the run has

    def factors(field: Field, r: Sequence[np.ndarray]) -> list[Residues]:
        return [matrices.factored(matrices.of_a_field(field), r[0], orders)]

    return [*_in_both(model, [x], factors), nothing, nothing]


def _rooted(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    p, _ = x.residues
    if p is None:
        raise Unmodelled("cholesky of a logarithm")
    return [(matrices.rooted(matrices.of_a_field(model.fields[0]), eqn, p)[0], None)]


_RULES: dict[str, Rule] = {
    "add": _entrywise(Field.add),
    "add_any": _entrywise(Field.add),
    "sub": _entrywise(Field.sub),
    "mul": _entrywise(Field.mul),
    "div": _quotient,
    "square": _entrywise(lambda field, x: field.mul(x, x)),
    "one_minus_square": _entrywise(lambda field, x: field.sub(_ONE, field.mul(x, x))),
    "integer_pow": _integer_power,
    "pow": _power,
    "sqrt": _square_root,
    "cbrt": _cube_root,
    "rsqrt": _inverse_root,
    "exp": _of_exp(lambda field, e: e, 1),
    "expm1": _of_exp(lambda field, e: field.sub(e, _ONE), 1),
    "logistic": _of_exp(lambda field, e: field.inverse(field.add(_ONE, e)), -1),
    "tanh": _of_exp(lambda field, e: field.mul(field.sub(e, _ONE), field.inverse(field.add(e, _ONE))), 2),
    "sinh": _of_exp(lambda field, e: _half(field, field.sub(e, field.inverse(e))), 1),
    "cosh": _of_exp(lambda field, e: _half(field, field.add(e, field.inverse(e))), 1),
    "log": _log,
    "log1p": _log,
    "sin": _halves(_sine),
    "cos": _halves(_cosine),
    "tan": _halves(lambda field, t: field.mul(_sine(field, t), field.inverse(_cosine(field, t)))),
    "erf": _error_function(complement=False),
    "erfc": _error_function(complement=True),
    "abs": _absolute,
    "select_n": _selected,
    "max": _extremum(largest=True),
    "min": _extremum(largest=False),
    "clamp": _clamped,
    "reduce_max": _reduced_extremum(largest=True),
    "reduce_min": _reduced_extremum(largest=False),
    "sort": _sorted,
    "triangular_solve": _solved,
    "lu": _pivoted,
    "cholesky": _rooted,
    **dict.fromkeys(("convert_element_type", "copy", "copy_p", "name", "stop_gradient"), _itself),
}
