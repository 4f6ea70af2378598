"""Values with bounds of their rounding errors: a domain of `language.interpret`.

The docstring of `parity_tests.harness.rounding` derives them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import Domain, interpret
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, Rule
from parity_tests.harness.rounding import control_flow
from parity_tests.harness.rounding import exact as rounding_exact
from parity_tests.harness.rounding import integer_jumps as rounding_jumps
from parity_tests.harness.rounding import overflow as rounding_overflow
from parity_tests.harness.rounding import scales as rounding_scales
from parity_tests.harness.rounding.fused import Sums
from parity_tests.harness.rounding.log_sums import LogSum, log_sums
from parity_tests.harness.rounding.products import Products
from parity_tests.harness.rounding.steps import Step, plan_of

Pair = tuple[np.ndarray, np.ndarray]

INPUT = 2  # roundings of an input that a stable algorithm may be equivalent to

_STEP, _FUNCTION = Kind.STEP.value, Kind.FUNCTION.value
_FLOAT64 = np.dtype(np.float64)
_DOUBLE = frozenset({_FLOAT64, np.dtype(np.complex128)})


class Followed(NamedTuple):
    """The sums and products that are known among the variables of a jaxpr, beside their values and bounds."""

    sums: Sums
    products: Products

    def entering(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr) -> Followed:
        """Return the sums and products that are known among the arguments of a jaxpr that an equation calls."""
        return Followed(self.sums.entering(eqn, jaxpr), self.products.entering(eqn, jaxpr))

    def leaving(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr, inner: Followed) -> None:
        """Remember what is known of the results of the call."""
        self.sums.leaving(eqn, jaxpr, inner.sums)
        self.products.leaving(eqn, jaxpr, inner.products)


class Bounds(Domain[Pair, Step]):
    """Values, each with the bound of the error that computing it in a format may make.

    Runs inside `np.errstate(all="ignore")`: an infinite or undefined bound is a result here, too. One of them runs one
    program, of whose variables it remembers more.

    Args:
        precision: the format.
        followed: what is known of the arguments.
        scaled: see `rounding.scales`.
    """

    def __init__(self, precision: Precision, followed: Followed | None = None, scaled: bool = False) -> None:
        self.precision, self.scaled = precision, scaled
        self.followed = followed or Followed(Sums(), Products())
        self._log_sums: Mapping[Any, LogSum] = {}

    def steps(self, jaxpr: core.Jaxpr) -> Sequence[Step]:
        """The equations of a program, with their rules."""
        plan = plan_of(jaxpr)
        self._log_sums = log_sums(plan)
        return plan.steps

    def constant(self, x: Any) -> Pair:
        """A constant, with the error that it has when it is stored in the format."""
        pair = constant_of(np.asarray(x), self.precision)
        return rounding_scales.constant(pair, self.precision) if self.scaled else pair

    def run(self, step: Step, operands: list[Pair], known: Mapping[core.Var, Pair]) -> Sequence[Pair]:
        """The results of an equation with bounds of all that right code may lose there."""
        if self.scaled:
            return self._with_scales(step, operands)
        if not step.plain or self.precision.stored is not None:
            return self.with_losses(step, operands)
        pair = _plain(step, operands, self.precision, self.followed)
        if step.result in self._log_sums:
            return [self._of_log_sum(self._log_sums[step.result], pair, known)]
        return [pair]

    def with_losses(self, step: Step, operands: list[Pair]) -> list[Pair]:
        """The same without what follows from several equations."""
        p = self.precision
        if p.stored is not None:
            operands = p.stored.taken(step.name, operands)
        outputs = list(super().run(step, operands, {}))
        if p.stored is not None:
            outputs = p.stored.rounded(outputs)
        if step.may_lose_more and outputs:
            y, e = outputs[0][0], rounding_overflow.within(outputs[0])
            values, bounds = [value for value, _ in operands], [bound for _, bound in operands]
            lost = _lost(step, values, bounds, y, p, self.followed)
            if _adds(lost):
                outputs[0] = rounding_overflow.result(y, _with(e, lost, y, p), p)
        return outputs

    def _with_scales(self, step: Step, operands: list[Pair]) -> list[Pair]:
        eqn, operands, scale = rounding_scales.prepared(step.eqn, operands, self.precision)
        outputs = self.with_losses(step if eqn is step.eqn else Step.of(eqn), operands)
        return rounding_scales.with_scale(step.eqn, outputs, scale) if scale else outputs

    def _of_log_sum(self, found: LogSum, pair: Pair, known: Mapping[Any, Pair]) -> Pair:
        """The result of the last of its steps, with the bound of `rounding.log_sums` if that is smaller."""
        return found.bounded(pair, known, Bounds(self.precision).with_losses, self.precision.u, INPUT)

    def apply(self, step: Step, operands: list[Pair]) -> list[Pair]:
        """The results of an equation with the bounds of its rule."""
        x = [value for value, _ in operands]
        results = step.evaluate(*x)
        return _of_any_numbers(step, operands, [*map(np.asarray, results if step.many else [results])], self.precision)

    def call(self, step: Step, program: core.ClosedJaxpr, operands: list[Pair]) -> list[Pair]:
        """The results of a call, in which what is known of the variables goes on."""
        within = self.followed.entering(step.eqn, program.jaxpr)
        outputs = interpret(program, operands, Bounds(self.precision, within, self.scaled))
        self.followed.leaving(step.eqn, program.jaxpr, within)
        return outputs

    def within(self, step: Step) -> Bounds:
        """In a loop or a branch nothing is known of the variables yet."""
        return Bounds(self.precision, scaled=self.scaled and step.name == "cond")

    def entry(self, x: Pair, i: int) -> Pair:
        """One entry along the first axis, with its bound."""
        value, bound = x
        return value[i, ...], bound[i, ...]

    def stacked(self, rows: Sequence[Pair], result: core.Var) -> Pair:
        """The entries of all steps, with their bounds."""
        return control_flow.stacked(rows, result)

    def holds(self, condition: Pair) -> np.ndarray:
        """Whether a `while` goes on.

        Raises:
            NoRule: rounding may change that.
        """
        again, uncertain = condition
        if np.any(uncertain):
            raise NoRule("while (its condition depends on a value that rounding may change)")
        return again

    def where(self, which: np.ndarray, yes: Pair, no: Pair) -> Pair:
        """The entries of the one or the other, with their bounds."""
        return control_flow.where(which, yes, no)

    def branches(self, index: Pair, count: int) -> Sequence[int]:
        """The branch that is taken, and those that rounding may choose, whose results are as right."""
        number, uncertain = index
        taken, first, last = (int(np.clip(number + shift, 0, count - 1)) for shift in (0, -uncertain, uncertain))
        return [taken, *(other for other in range(first, last + 1) if other != taken)]

    def either(self, taken: Pair, other: Pair) -> Pair:
        """The value of the branch that is taken, with a bound that covers the other one."""
        return control_flow.either(taken, other, self.precision)

    def ran(self, step: Step, operands: list[Pair], results: list[Pair]) -> list[Pair]:
        """The results of a loop, or of a linear solver, with bounds that hold of them as a whole."""
        of_whole = control_flow.in_groups if step.name == "scan" else control_flow.solved
        return of_whole(step, operands, results, self.precision)


def _lost(
    step: Step, x: list[np.ndarray], e: list[np.ndarray], y: np.ndarray, precision: Precision, followed: Followed
) -> np.ndarray | float:
    """Return the error that the result of an equation may have besides the one that its rule counts."""
    lost = followed.products.lost(step, x, e, precision) + followed.sums.lost(step, x, y, precision)
    return _by_logarithm(x[1], y, precision) if step.has_logarithm else lost


def _adds(lost: np.ndarray | float) -> bool:
    """Return whether there is such a loss at all."""
    return type(lost) is not float and bool(np.count_nonzero(lost))


def _with(e: np.ndarray, lost: np.ndarray | float, y: np.ndarray, precision: Precision) -> np.ndarray:
    """A bound that holds that loss, too.

    What cannot round cannot in another order either (`rounding.exact`), but it may overflow there.
    """
    if np.count_nonzero(e):
        return e + lost
    overflows = np.isinf(lost) | np.isfinite(y) & (np.abs(y) + lost > precision.largest)
    return np.where(overflows, lost, e)


def _by_logarithm(s: np.ndarray, y: np.ndarray, precision: Precision) -> np.ndarray:
    """Return the error that a quotient y = a / s may have where the program has log s, too, and right code uses that.

    As log s' = 1 / s does in the derivative of m + log Σ exp(x - m), which is exp(x - m) / s, and which everybody with
    that logarithm at hand computes as exp(x - (m + log s)). The logarithm is stored, and the difference is: each rounds
    by u |log s| at most, besides what m and x - m round by, which the exponential has been charged with already. An
    error of the exponent is a relative one of the power.
    """
    change = 2 * precision.u * np.abs(np.log(np.abs(s)))
    return np.where(np.isfinite(change), np.abs(y) * np.expm1(change), 0.0)


def constant_of(x: np.ndarray, precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """A constant of the program, with the error that it has when it is stored in the format."""
    if x.dtype not in _DOUBLE:
        return x, np.zeros(x.shape)
    if not x.ndim and x.dtype == _FLOAT64:
        return x, _error_of_number(x.tobytes(), precision.storage)
    return x, _error_of_constant(x, precision)


def _error_of_constant(x: np.ndarray, precision: Precision) -> np.ndarray:
    return _unless_infinite(np.abs(precision.rounded(x) - x))


def _unless_infinite(error: np.ndarray) -> np.ndarray:
    """The error of a constant; none where it overflows, since it stands for an infinity there, as in a mask."""
    return np.where(np.isfinite(error), error, 0.0)


@functools.lru_cache(maxsize=1024)
def _error_of_number(x: bytes, storage: np.dtype) -> np.ndarray:
    """The error of a float64 given by its bytes, so that 0 and -0 differ; a loop reads its numbers in every step."""
    number = np.frombuffer(x)[0]
    with np.errstate(over="ignore"):
        error = _unless_infinite(np.abs(number.astype(storage).astype(np.float64) - number))
    error.flags.writeable = False
    return error


def _plain(
    step: Step, operands: list[tuple], precision: Precision, followed: Followed
) -> tuple[np.ndarray, np.ndarray]:
    """The result of a plain step, with all that it may have lost: what `applied` and `_lost` find, in fewer calls."""
    x, e = [value for value, _ in operands], rounding_overflow.taken(step, operands)
    y = np.asarray(step.evaluate(*x))
    if precision.jumps is not None and step.kinds & _STEP:
        integers = rounding_jumps.on_chosen_side(step.eqn, operands, y, precision.jumps)
        if integers is not None:
            return integers
    bound = np.asarray(step.evaluate(*e)) if step.moves else _rule_of(step, False)(step.eqn, x, e, y, precision)
    if step.may_be_exact and not np.count_nonzero(e[0]) and rounding_exact.exact(step.eqn, x, e, y, precision):
        bound = np.zeros(y.shape)
    if step.kinds & _FUNCTION:
        bound = functools.reduce(_unknown_if, e, bound)
    bound = _of_shape(bound, y.shape)
    if step.may_lose_more:
        lost = _lost(step, x, e, y, precision, followed)
        bound = _with(bound, lost, y, precision) if _adds(lost) else bound
    return rounding_overflow.result(y, rounding_overflow.of_sum(step, operands, y, bound, precision), precision)


def _of_any_numbers(step: Step, operands: list[tuple], values: list[np.ndarray], precision: Precision) -> list[tuple]:
    """The results of an equation, which may be complex numbers, integers and booleans, too."""
    eqn, many = step.eqn, step.many
    x, e = [value for value, _ in operands], rounding_overflow.taken(step, operands)
    if not step.real:
        _verify_double(step.name, values)
        if all(y.dtype.kind not in "fc" for y in values) and not any(map(np.count_nonzero, e)):
            return [(y, np.zeros(y.shape)) for y in values]
    if precision.jumps is not None and step.kinds & _STEP:
        integers = rounding_jumps.on_chosen_side(eqn, [*zip(x, e, strict=True)], values[0], precision.jumps)
        if integers is not None:
            return [integers]
    complex_numbers = not step.real and any(np.iscomplexobj(y) for y in [*x, *values])
    bounds = _rule_of(step, complex_numbers)(eqn, x, e, values if many else values[0], precision)
    bounds = bounds if many else [bounds]
    may_be_exact = step.may_be_exact and not many and not complex_numbers
    if may_be_exact and rounding_exact.exact(eqn, x, e, values[0], precision):
        bounds = [np.zeros(values[0].shape)]
    if step.kinds & _FUNCTION:
        # What may be anything, infinite or undefined too, has no bounded image.
        bounds = [functools.reduce(_unknown_if, e, bound) for bound in bounds]
    if not many:
        bounds = [rounding_overflow.of_sum(step, operands, values[0], bounds[0], precision)]
    each = zip(values, bounds, strict=True)
    return [rounding_overflow.result(y, _of_shape(bound, y.shape), precision) for y, bound in each]


def _verify_double(name: str, values: Sequence[np.ndarray]) -> None:
    """Refuse results in a lower precision.

    Raises:
        NotFloat64: there is one.
    """
    for y in values:  # bfloat16 included, which NumPy's own kinds do not know as floating-point
        if y.dtype not in _DOUBLE and y.dtype.kind not in "biu" and jnp.issubdtype(y.dtype, jnp.inexact):
            raise NotFloat64(name, str(y.dtype))


def _of_shape(bound: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return bound if bound.shape == shape else np.broadcast_to(bound, shape)


def _rule_of(step: Step, complex_numbers: bool) -> Rule:
    record = step.record
    if record is None:
        raise NoRule(step.name)
    if not complex_numbers or record.complex is BY_MODULUS:
        return record.bound
    if record.complex is None:
        raise NoRule(f"{step.name} (of complex numbers)", "complex")
    return record.complex


def _unknown_if(bound: np.ndarray, e: np.ndarray) -> np.ndarray:
    infinite = np.isinf(e)
    return np.where(infinite, np.inf, bound) if np.count_nonzero(infinite) else bound
