"""How large rounding errors can be: a running error analysis over a function's jaxpr.

`bounded(jaxpr, *args, precision=p)` evaluates it in float64 and carries, next to every intermediate value x, an
entrywise bound E_x on the error that a computation of the same quantity in the format p makes: each operation passes on
the errors of its operands, and adds its own rounding. Hence cancellation is excused where the mathematics forces it and
nowhere else, and no tolerance is chosen. With u the unit roundoff of a stored result and u_acc the accumulator's:

    E(input)  = 2 u |x|
    E(const)  = |c - c rounded to the format|
    E(x ± y)  = E_x + E_y + u |x ± y|
    E(x ∘ y)  = |x| E_y + E_x |y| + E_x E_y + u |x ∘ y|
    E(X Y)    = |X| E_Y + E_X |Y| + E_X E_Y + γ_K |X| |Y| + u |X Y|,    γ_K = min(K, λ √K) u_acc
    E(f(x))   = max |f(y) - f(x)| over |y - x| <= E_x, + (2 u + 8 u_acc) |f(x)|

The inputs are exact, but start with an error all the same: an algorithm is called stable if its result is nearly the
right one for nearly the given inputs (N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.5).
So a candidate may distribute c (x - y) to c x - c y, or write 1 - y y where the oracle has (1 - y) (1 + y); it may not
lose more than the problem's own sensitivity and the oracle's own roundings explain.
γ_K: K roundings at worst; of more than 47 the probabilistic bound (N. Higham, T. Mary, "A new approach to probabilistic
rounding error analysis", SIAM J. Sci. Comput. 41, 2019), with more roundings where terms are equal (`rounding.terms`).
λ = 6.9: of the 10^7 sums that a report may compare, any of independent roundings exceeds it with probability 10^-3 at
most (`precision`). The 8 covers
elementary functions: the worst in use, XLA's float32 tanh, errs by 4.7 u.

Where right code may go another way than the oracle, and lose more, that is counted, too: products are multiplied in
any order (`rounding.products`), sums of sums are added up in any order (`rounding.fused`), and what has a logarithm is
divided by with that (`_by_logarithm`). What else another algorithm loses is not: one that divides by a factor to take
it out of a product, say, is judged by an oracle that does so, too, in an explicit formula.

Where nothing can round, the sum or product of small integers, the bound is 0: see `rounding.exact`.

An entry whose value may overflow the format gets an infinite bound: it cannot be judged. Nor can a sum of which a
partial sum may, in whatever order. An intermediate may, if only because of a constant: see `rounding.scales`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.precision import FLOAT64, Precision
from parity_tests.harness.rounding import bits as rounding_bits
from parity_tests.harness.rounding import complex as rounding_complex
from parity_tests.harness.rounding import control_flow as rounding_control
from parity_tests.harness.rounding import elementary as rounding_elementary
from parity_tests.harness.rounding import exact as rounding_exact
from parity_tests.harness.rounding import indexing as rounding_indexing
from parity_tests.harness.rounding import integer_jumps as rounding_jumps
from parity_tests.harness.rounding import matrix as rounding_matrix
from parity_tests.harness.rounding import order as rounding_order
from parity_tests.harness.rounding import scales as rounding_scales
from parity_tests.harness.rounding import spectral as rounding_spectral
from parity_tests.harness.rounding import sums as rounding_sums
from parity_tests.harness.rounding.elementary import capped, change, underflow
from parity_tests.harness.rounding.evaluation import called, evaluated
from parity_tests.harness.rounding.fused import Sums
from parity_tests.harness.rounding.missing import NoRule, NotFloat64
from parity_tests.harness.rounding.products import Products

INPUT = 2  # roundings of an input that a stable algorithm may be equivalent to


_DOUBLE = frozenset({np.dtype(np.float64), np.dtype(np.complex128)})

Rule = Callable[..., Any]
_RULES: dict[str, Rule] = (
    rounding_matrix.RULES
    | rounding_order.RULES
    | rounding_elementary.RULES
    | rounding_spectral.RULES
    | rounding_sums.RULES
    | rounding_indexing.RULES
    | rounding_bits.RULES
)


def bounded(
    closed: core.ClosedJaxpr, *args: np.ndarray, precision: Precision, inputs: int = INPUT
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and error bounds of a jaxpr's outputs at float64 arguments that are exact in the format.

    `inputs` counts the roundings of an input that a computation may be equivalent to; 0 where none can be.

    Must run inside `numerics.pinned()` (float64 on). The bound covers the format's computation and that of the
    float64 values themselves.

    Raises:
        NoRule: the jaxpr has a primitive without a rule.
        NotFloat64: it computes in a lower precision than its arguments have.
    """
    # An infinite or undefined input is exact.
    with np.errstate(all="ignore"):  # an infinity or a NaN is a result here, as it is in JAX
        pairs = [(np.asarray(x), np.where(np.isfinite(x), inputs * precision.u * np.abs(x), 0.0)) for x in args]
        outputs = rounding_jumps.on_every_side(functools.partial(_analysed, closed, pairs), precision)
        # The bound is proportional to the roundoff to first order, so the reference's own error is u64 / u of it.
        return [(x, e * (1 + FLOAT64.u / precision.u)) for x, e in outputs]


def _analysed(closed: core.ClosedJaxpr, pairs: Sequence[tuple], p: Precision) -> list[tuple]:
    """The outputs; where a constant beyond the format has left them without a bound, by `rounding.scales`."""
    outputs = _interpret(closed.jaxpr, closed.consts, pairs, p)
    unknown = any(np.isinf(e[np.abs(x) <= p.largest]).any() for x, e in outputs)
    if not unknown or not rounding_scales.has_constants_beyond(closed, p):
        return outputs
    scaled = _interpret(closed.jaxpr, closed.consts, pairs, p, scaled=True)
    bounds = [rounding_scales.itself(pair, p)[1] for pair in scaled]
    return [(x, np.where(np.isinf(e), other, e)) for (x, e), other in zip(outputs, bounds, strict=True)]


def _interpret(
    jaxpr, consts: Sequence, args: Sequence[tuple], precision: Precision, sums: Sums | None = None, scaled: bool = False
) -> list[tuple]:
    environment: dict = {}
    sums = sums or Sums()

    def constant(x):
        pair = _constant_of(np.asarray(x), precision)
        return rounding_scales.constant(pair, precision) if scaled else pair

    def read(atom):
        return constant(atom.val) if isinstance(atom, core.Literal) else environment[atom]

    environment.update(zip(jaxpr.constvars, map(constant, consts), strict=True))
    environment.update(zip(jaxpr.invars, args, strict=True))
    logs = [eqn.invars[0] for eqn in jaxpr.eqns if eqn.primitive.name == "log"]
    products = Products()
    for eqn in jaxpr.eqns:
        operands, scale = [read(x) for x in eqn.invars], 0
        if scaled:
            eqn, operands, scale = rounding_scales.prepared(eqn, operands, precision)
        outputs = applied(eqn, operands, precision, sums, scaled)
        lost = products.lost(eqn, operands, precision) + sums.lost(eqn, operands, outputs, precision)
        if eqn.primitive.name == "div" and any(eqn.invars[1] is x for x in logs):
            lost = _by_logarithm(operands[1][0], outputs[0][0], precision)
        # What cannot round cannot in another order either: `rounding.exact`.
        if np.count_nonzero(lost) and np.count_nonzero(outputs[0][1]):
            outputs = [(y, capped(y, e + lost, precision)) for y, e in outputs]
        if scale:
            outputs = rounding_scales.with_scale(eqn, outputs, scale)
        environment.update(zip(eqn.outvars, outputs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _by_logarithm(s: np.ndarray, y: np.ndarray, precision: Precision) -> np.ndarray:
    """What a quotient y = a / s may lose where the program has log s, too, and a right version goes by that.

    As log s' = 1 / s does in the derivative of m + log Σ exp(x - m), which is exp(x - m) / s, and which everybody with
    that logarithm at hand computes as exp(x - (m + log s)). The logarithm is stored, and the difference is: each rounds
    by u |log s| at most, besides what m and x - m round by, which the exponential has been charged with already. An
    error of the exponent is a relative one of the power.
    """
    change = 2 * precision.u * np.abs(np.log(np.abs(s)))
    return np.where(np.isfinite(change), np.abs(y) * np.expm1(change), 0.0)


def _constant_of(x: np.ndarray, precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """A constant of the program, with the error that it has when it is stored in the format."""
    if x.dtype not in _DOUBLE:
        return x, np.zeros(x.shape)
    error = np.abs(precision.rounded(x) - x)
    # What overflows stands for an infinity, as in a mask.
    return x, np.where(np.isfinite(error), error, 0.0)


def applied(
    eqn, operands: list[tuple], precision: Precision, sums: Sums | None = None, scaled: bool = False
) -> list[tuple]:
    """The results of an equation and their bounds, of operands and theirs.

    Must run inside `np.errstate(all="ignore")`: an infinite or undefined bound is a result here, too.

    `sums`: those among the variables of its jaxpr, which a call goes on with. `scaled`: see `rounding.scales`.
    """
    sums = sums or Sums()
    name = eqn.primitive.name
    inner = called(eqn)
    if inner is not None:
        within = sums.entering(eqn, inner.jaxpr)
        outputs = _interpret(inner.jaxpr, inner.consts, operands, precision, within, scaled)
        sums.leaving(eqn, inner.jaxpr, within)
        return outputs
    if name in rounding_control.RULES:
        interpret = functools.partial(_interpret, scaled=scaled and name == "cond")
        return rounding_control.RULES[name](eqn, operands, precision, interpret)
    x = [value for value, _ in operands]
    values = evaluated(eqn, *x)
    values = [np.asarray(y) for y in (values if eqn.primitive.multiple_results else [values])]
    low = [y.dtype for y in values if y.dtype not in _DOUBLE and jnp.issubdtype(y.dtype, jnp.inexact)]
    if low:  # bfloat16 included, which NumPy's own kinds do not know as floating-point
        raise NotFloat64(name, str(low[0]))
    if all(y.dtype.kind not in "fc" for y in values) and not any(np.any(e) for _, e in operands):
        return [(y, np.zeros(y.shape)) for y in values]
    if precision.jumps is not None:
        integers = rounding_jumps.on_chosen_side(eqn, operands, values[0], precision.jumps)
        if integers is not None:
            return [integers]
    complex_numbers = any(np.iscomplexobj(y) for y in [*x, *values])
    rule, e = _rule_of(name, complex_numbers), [e for _, e in operands]
    many = eqn.primitive.multiple_results
    bounds = rule(eqn, x, e, values if many else values[0], precision)
    bounds = bounds if many else [bounds]
    if not many and not complex_numbers and rounding_exact.exact(eqn, x, e, values[0], precision):
        bounds = [np.zeros(values[0].shape)]
    if name in rounding_elementary.RULES or name in rounding_complex.RULES:
        # What may be anything, infinite or undefined too, has no bounded image.
        bounds = [functools.reduce(_unknown_if, e, bound) for bound in bounds]
    return [(y, capped(y, _of_shape(bound, y.shape), precision)) for y, bound in zip(values, bounds, strict=True)]


def _of_shape(bound: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return bound if bound.shape == shape else np.broadcast_to(bound, shape)


def _rule_of(name: str, complex_numbers: bool) -> Rule:
    if complex_numbers and name in rounding_complex.RULES:
        return rounding_complex.RULES[name]
    if name not in _RULES:
        raise NoRule(name)
    if complex_numbers and name not in rounding_complex.BY_MODULUS:
        raise NoRule(f"{name} (of complex numbers)")
    return _RULES[name]


def _unknown_if(bound: np.ndarray, e: np.ndarray) -> np.ndarray:
    infinite = np.isinf(e)
    return np.where(infinite, np.inf, bound) if infinite.any() else bound


# Rules: (eqn, values of the operands, their bounds, values of the results, precision) -> bounds of the results.


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            _RULES[name] = rule
        return rule

    return register


@_rule("add", "sub", "add_any")
def _sum_of_two(eqn, x, e, y, p):
    bound = e[0] + e[1] + p.u * np.abs(y)
    return bound if np.isfinite(y).all() else np.where(_exactly_infinite(x, e, y), 0.0, bound)


@_rule("mul")
def _product(eqn, x, e, y, p):
    passed_on = np.abs(x[0]) * e[1] + e[0] * np.abs(x[1]) + e[0] * e[1]
    roundings = rounding_complex.PRODUCT if np.iscomplexobj(y) else 1
    own = roundings * p.u * np.abs(y)
    lost = np.where((x[0] == 0) | (x[1] == 0), 0.0, roundings * p.tiny)
    bound = passed_on + own + lost
    if np.isfinite(y).all():
        return bound
    sure = (np.abs(x[0]) > e[0]) & (np.abs(x[1]) > e[1])  # of their signs
    return np.where(_exactly_infinite(x, e, y) & sure, 0.0, bound)


def _exactly_infinite(x, e, y):
    """Is it infinite because an operand is, exactly, and the other one is certainly finite or as infinite?"""
    either = (np.isinf(x[0]) & (e[0] == 0)) | (np.isinf(x[1]) & (e[1] == 0))
    return np.isinf(y) & either & np.isfinite(e[0] + e[1])


@_rule("div")
def _quotient(eqn, x, e, y, p):
    room = np.abs(x[1]) - e[1]
    passed_on = np.where(room > 0, (e[0] + np.abs(y) * e[1]) / room, np.where(e[0] + e[1] > 0, np.inf, 0.0))
    roundings = rounding_complex.QUOTIENT if np.iscomplexobj(y) else 1
    lost = np.where(x[0] == 0, 0.0, roundings * p.tiny)
    own = roundings * p.u * np.abs(y)
    bound = passed_on + own + lost
    if np.isfinite(x[0]).all():
        return bound
    exact = np.isinf(x[0]) & (e[0] == 0) & (room > 0) & np.isfinite(e[1])
    return np.where(exact, 0.0, bound)


@_rule("neg", "copy", "copy_p", "stop_gradient", "reduce_precision", "real", "imag", "conj")
def _exact(eqn, x, e, y, p):
    return e[0]


@_rule("abs")
def _magnitude(eqn, x, e, y, p):
    return e[0] + 4 * p.u * y + underflow(y, p) if np.iscomplexobj(x[0]) else e[0]


@_rule("complex")
def _pair(eqn, x, e, y, p):
    return np.hypot(e[0], e[1])


@_rule("max", "min", "clamp")
def _extremum_of_operands(eqn, x, e, y, p):
    return functools.reduce(np.maximum, e)


@_rule("reduce_max", "reduce_min")
def _extremum(eqn, x, e, y, p):
    # Only the errors of those that may be it: a mask of -1e9, which a short format rounds by millions, never is.
    axes = tuple(eqn.params["axes"])
    sign = 1 if eqn.primitive.name == "reduce_max" else -1
    unknown = np.isinf(e[0])
    surely = np.where(unknown, -np.inf, sign * x[0] - e[0]).max(axes, initial=-np.inf, keepdims=True)
    return np.where(unknown | (sign * x[0] + e[0] >= surely), e[0], 0.0).max(axes, initial=0.0)


@_rule("reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "slice", "rev", "concatenate", "pad")
@_rule("split", "stack", "unstack", "tile")
def _rearranged(eqn, x, e, y, p):
    bounds = evaluated(eqn, *e)
    return [*map(np.asarray, bounds)] if eqn.primitive.multiple_results else np.asarray(bounds)


@_rule("rem")
def _remainder(eqn, x, e, y, p):
    # x - n y with n = trunc(x / y), as long as rounding does not change n.
    n = np.trunc(x[0] / x[1])
    room = np.abs(x[1]) - np.abs(y)
    error = e[0] + np.abs(n) * e[1]
    certain = (error < room) & ((error < np.abs(y)) | (n == 0))
    return np.where(certain | (error == 0), error + p.u * np.abs(y), np.inf)


@_rule("argmax", "argmin")
def _position(eqn, x, e, y, p):
    (axis,) = eqn.params["axes"]
    winner = np.expand_dims(y, axis)
    margin = np.abs(x[0] - np.take_along_axis(x[0], winner, axis))
    may = margin <= e[0] + np.take_along_axis(e[0], winner, axis)  # the winner itself always may
    if not p.any_choice:  # see `rounding.order`
        may &= (may & (margin > 0)).any(axis, keepdims=True)
    places = np.moveaxis(np.broadcast_to(np.arange(x[0].shape[axis]), np.moveaxis(x[0], axis, -1).shape), -1, axis)
    return np.where(may, np.abs(places - winner), 0).max(axis)


@_rule("iota", "empty2")
def _constant(eqn, x, e, y, p):
    return np.zeros(y.shape)


@_rule("eq", "ne", "lt", "le", "gt", "ge", "lt_to", "le_to")
def _comparison(eqn, x, e, y, p):
    """1 where rounding may change the answer, else 0."""
    if x[0].dtype.kind == "b":
        return np.maximum(e[0], e[1])
    if x[0].dtype.kind in "iu":
        return _comparison_of_integers(eqn.primitive.name.removesuffix("_to"), x, e)
    # An exact tie comes from the structure (x against itself, or against the maximum it is part of), not by accident.
    return ((x[0] != x[1]) & (np.abs(x[0] - x[1]) <= e[0] + e[1])).astype(float)


def _comparison_of_integers(name, x, e):
    """An integer that rounding may change, such as the place of the largest entry, equals another by accident only."""
    apart, moved = x[0] * 1.0 - x[1] * 1.0, np.floor(e[0] + e[1] + 0.5)
    if name in ("eq", "ne"):
        return ((np.abs(apart) <= moved) & (moved > 0)).astype(float)
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[name]
    return (compare(apart - moved, 0) != compare(apart + moved, 0)).astype(float)


@_rule("is_finite")
def _is_finite(eqn, x, e, y, p):
    return np.isinf(e[0]).astype(float)


@_rule("select_n")
def _select(eqn, x, e, y, p):
    chosen = np.asarray(evaluated(eqn, x[0], *e[1:]))
    other = functools.reduce(
        np.maximum, (np.abs(case * 1.0 - y * 1.0) + bound for case, bound in zip(x[1:], e[1:], strict=True))
    )
    return np.where(np.asarray(e[0]) > 0, other, chosen)


@_rule("sign", "floor", "ceil", "round")
def _step(eqn, x, e, y, p):
    low, high = (np.asarray(evaluated(eqn, x[0] + shift)) for shift in (-e[0], e[0]))
    return change(y, low, high)
