"""The interpreter of the rounding-error analysis, which the docstring of `parity_tests.harness.rounding` derives."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.rounding import (
    arithmetic,
    bits,
    control_flow,
    elementary,
    indexing,
    matrix,
    order,
    spectral,
    sums,
)
from parity_tests.harness.rounding import exact as rounding_exact
from parity_tests.harness.rounding import integer_jumps as rounding_jumps
from parity_tests.harness.rounding import overflow as rounding_overflow
from parity_tests.harness.rounding import scales as rounding_scales
from parity_tests.harness.rounding.fused import Sums
from parity_tests.harness.rounding.live import live
from parity_tests.harness.rounding.log_sums import LogSum, log_sums
from parity_tests.harness.rounding.missing import NoRule, NotFloat64
from parity_tests.harness.rounding.products import Products
from parity_tests.harness.rounding.registry import BY_MODULUS, ControlRule, Kind, Rule
from parity_tests.harness.rounding.steps import Step, plan_of
from parity_tests.harness.rounding.stored import Stored, stored

# Each registers its primitives when it is imported.
FAMILIES = (arithmetic, bits, control_flow, elementary, indexing, matrix, order, spectral, sums)

INPUT = 2  # roundings of an input that a stable algorithm may be equivalent to


_CONTROL, _STEP, _FUNCTION = Kind.CONTROL.value, Kind.STEP.value, Kind.FUNCTION.value
_FLOAT64 = np.dtype(np.float64)
_DOUBLE = frozenset({_FLOAT64, np.dtype(np.complex128)})


class Followed(NamedTuple):
    """What is known of the variables of a jaxpr beside their values and bounds."""

    sums: Sums
    products: Products

    def entering(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr) -> Followed:
        """What is known of the arguments of a jaxpr that an equation calls."""
        return Followed(self.sums.entering(eqn, jaxpr), self.products.entering(eqn, jaxpr))

    def leaving(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr, inner: Followed) -> None:
        """Remember what is known of the results of the call."""
        self.sums.leaving(eqn, jaxpr, inner.sums)
        self.products.leaving(eqn, jaxpr, inner.products)


def bounded(
    closed: core.ClosedJaxpr,
    *args: np.ndarray,
    precision: Precision,
    inputs: int = INPUT,
    values: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and error bounds of a jaxpr's outputs at float64 arguments that are exact in the format.

    `inputs` counts the roundings of an input that a computation may be equivalent to; 0 where none can be. `values`:
    the operator's outputs by name, for a contract (`precision.arithmetic`) by which some are stored.

    Must run inside `numerics.pinned()` (float64 on). The bound covers the format's computation and that of the
    float64 values themselves.

    Raises:
        NoRule: the jaxpr has a primitive without a rule.
        NotFloat64: it computes in a lower precision than its arguments have.
    """
    contract = precision.arithmetic
    if contract.inside == "float32":
        rounds = contract.stored or contract.operands
        kept = Stored.of(precision, closed, args, values) if rounds else None
        single = replace(precision.single, any_choice=precision.any_choice, any_order=precision.any_order, stored=kept)
        return [stored(pair, precision) for pair in bounded(closed, *args, precision=single, inputs=inputs)]
    # An infinite or undefined input is exact.
    with np.errstate(all="ignore"):  # an infinity or a NaN is a result here, as it is in JAX
        pairs = [(np.asarray(x), np.where(np.isfinite(x), inputs * precision.u * np.abs(x), 0.0)) for x in args]
        outputs = rounding_jumps.on_every_side(functools.partial(_analysed, live(closed), pairs), precision)
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
    jaxpr,
    consts: Sequence,
    args: Sequence[tuple],
    precision: Precision,
    followed: Followed | None = None,
    scaled: bool = False,
) -> list[tuple]:
    environment: dict = {}
    followed = followed or Followed(Sums(), Products())

    def constant(x):
        pair = constant_of(np.asarray(x), precision)
        return rounding_scales.constant(pair, precision) if scaled else pair

    def read(atom):
        return constant(atom.val) if isinstance(atom, core.Literal) else environment[atom]

    environment.update(zip(jaxpr.constvars, map(constant, consts), strict=True))
    environment.update(zip(jaxpr.invars, args, strict=True))
    plan = plan_of(jaxpr)
    sums_of_logs = log_sums(plan)
    for step in plan.steps:
        operands = [*map(read, step.eqn.invars)] if step.has_literals else [environment[x] for x in step.eqn.invars]
        if step.plain and not scaled and precision.stored is None:
            environment[step.result] = _plain(step, operands, precision, followed)
            if step.result in sums_of_logs:
                environment[step.result] = _of_log_sum(sums_of_logs[step.result], environment, precision)
            continue
        scale = 0
        if scaled:
            eqn, operands, scale = rounding_scales.prepared(step.eqn, operands, precision)
            step = step if eqn is step.eqn else Step.of(eqn, plan.logarithms)
        outputs = with_losses(step, operands, precision, followed, scaled)
        if scale:
            outputs = rounding_scales.with_scale(step.eqn, outputs, scale)
        environment.update(zip(step.eqn.outvars, outputs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _of_log_sum(found: LogSum, environment: Mapping[Any, tuple], precision: Precision) -> tuple:
    """The result of the last of its steps, with the bound of `rounding.log_sums` if that is smaller."""
    alone = Followed(Sums(), Products())

    def run(step: Step, operands: list[tuple]) -> list[tuple]:
        return with_losses(step, operands, precision, alone)

    return found.bounded(environment[found.steps[-1].result], environment, run, precision.u, INPUT)


def with_losses(
    step: Step, operands: list[tuple], precision: Precision, followed: Followed, scaled: bool = False
) -> list[tuple]:
    """The results of an equation with bounds of all that right code may lose there; see `applied`."""
    if precision.stored is not None:
        operands = precision.stored.taken(step.name, operands)
    outputs = applied(step, operands, precision, followed, scaled)
    if precision.stored is not None:
        outputs = precision.stored.rounded(outputs)
    if step.may_lose_more and outputs:
        y, e = outputs[0][0], rounding_overflow.within(outputs[0])
        values, bounds = [value for value, _ in operands], [bound for _, bound in operands]
        lost = _lost(step, values, bounds, y, precision, followed)
        if _adds(lost):
            outputs[0] = rounding_overflow.result(y, _with(e, lost, y, precision), precision)
    return outputs


def _lost(
    step: Step, x: list[np.ndarray], e: list[np.ndarray], y: np.ndarray, precision: Precision, followed: Followed
) -> np.ndarray | float:
    """What the result of an equation may have lost besides what its rule counts."""
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
    """What a quotient y = a / s may lose where the program has log s, too, and a right version goes by that.

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


def applied(
    step: Step, operands: list[tuple], precision: Precision, followed: Followed | None = None, scaled: bool = False
) -> list[tuple]:
    """The results of an equation and their bounds, of operands and theirs.

    Must run inside `np.errstate(all="ignore")`: an infinite or undefined bound is a result here, too.

    `followed`: what is known of the variables of its jaxpr, which a call goes on with. `scaled`: see `rounding.scales`.
    """
    eqn, inner = step.eqn, step.inner
    if inner is not None:
        followed = followed or Followed(Sums(), Products())
        within = followed.entering(eqn, inner.jaxpr)
        outputs = _interpret(inner.jaxpr, inner.consts, operands, precision, within, scaled)
        followed.leaving(eqn, inner.jaxpr, within)
        return outputs
    if step.kinds & _CONTROL and step.record is not None:
        interpret = functools.partial(_interpret, scaled=scaled and step.name == "cond")
        return cast(ControlRule, step.record.rule)(eqn, operands, precision, interpret)
    x = [value for value, _ in operands]
    results = step.evaluate(*x)
    return _of_any_numbers(step, operands, [*map(np.asarray, results if step.many else [results])], precision)


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
    bound = _rule_of(step, False)(step.eqn, x, e, y, precision)
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
        return cast(Rule, record.rule)
    if record.complex is None:
        raise NoRule(f"{step.name} (of complex numbers)")
    return record.complex


def _unknown_if(bound: np.ndarray, e: np.ndarray) -> np.ndarray:
    infinite = np.isinf(e)
    return np.where(infinite, np.inf, bound) if np.count_nonzero(infinite) else bound
