"""Constants beyond the format: the common scale of a formula is free.

The Padé approximation of the matrix exponential is a quotient of two sums with constants up to 6.5e16. Nobody computes
with such a constant in float16: whoever writes this formula there divides all of them by the first one. So a program
that has constants beyond the format, and no bound for that reason, is analysed a second time as one that computes with
c / 2^s in place of each constant c > 1, where s brings it below 1. What is made of them is a number x with a scale s,
of which x / 2^s is computed, in the format and by its rules:

    x y, and contractions        the sum of the scales
    x / y, solutions of y z = x  their difference
    x + y, a choice, a move      the larger one; the other number is divided by a power of two, and may underflow

Every other operation (an exponential, a maximum, a comparison, a loop) and whoever reads a result takes the number
itself, which may overflow: the operator's own values do as before, and so does a mask of -1e9 that is added to what
goes through an exponential. Where a program has a bound without scales, that is its bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.language import jaxprs
from parity_tests.harness.language.calls import called
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.bound.base import capped
from parity_tests.harness.primitives.registry import Kind, has

Pair = tuple[np.ndarray, np.ndarray]

_ALIKE = Kind.ADDS | Kind.MOVES | Kind.KEEPS_SIZE | Kind.SELECTS | Kind.HOMOGENEOUS


class Scaled(tuple[np.ndarray, np.ndarray]):
    """A value and its bound, both divided by 2 ** scale.

    `itself`: the pair without a scale, where it is another than what follows from this one: a constant is exact where
    it stands for an infinity. `factors`: of an LU decomposition, whose L has no scale; they only solve systems.
    `only_if_multiplied`: of a constant that the format has; added to other numbers it takes their scale.
    """

    scale: int
    itself: Pair | None
    factors: bool
    only_if_multiplied: bool

    def __new__(
        cls,
        pair: Pair,
        scale: int,
        itself: Pair | None = None,
        factors: bool = False,
        only_if_multiplied: bool = False,
    ) -> Scaled:
        """Make one from a pair that is divided already."""
        made = super().__new__(cls, pair)
        made.scale, made.itself, made.factors, made.only_if_multiplied = scale, itself, factors, only_if_multiplied
        return made


def has_constants_beyond(closed: core.ClosedJaxpr, precision: Precision) -> bool:
    """True if a program has finite constants that are too large for the format."""
    consts = [np.asarray(x) for x in closed.consts]
    largest = [_largest(x) for x in consts if x.dtype == np.float64] + [*map(abs, jaxprs.literals(closed.jaxpr))]
    return max(largest, default=0.0) > precision.largest


def constant(itself: Pair, precision: Precision) -> Pair:
    """A constant of the program, given as it is read without scales; those that the format has are divided, too."""
    x, _ = itself
    largest = _largest(x) if x.dtype == np.float64 else 0.0
    scale = int(np.frexp(largest)[1])
    if scale <= 0:
        return itself
    divided = _times(x, -scale)
    # The other constants of the formula may be divided by what is no power of two: then each is rounded.
    error = np.where(np.isfinite(x) & (x != 0), precision.u * np.abs(divided) + precision.tiny, 0.0)
    return Scaled((divided, error), scale, itself, only_if_multiplied=largest <= precision.largest)


def itself(pair: Pair, precision: Precision) -> Pair:
    """The number as it is, without a scale: where it overflows there is no bound."""
    if not isinstance(pair, Scaled):
        return pair
    if pair.itself is not None:
        return pair.itself
    x, e = _shifted(pair, pair.scale, precision)
    return x, capped(x, e, precision)


def prepared(
    eqn: core.JaxprEqn, operands: Sequence[Pair], precision: Precision
) -> tuple[core.JaxprEqn, list[Pair], int]:
    """An equation and its operands as it takes them, and the scale of its results.

    An operand that is divided by another power of two than before is another number: the equation has another variable
    for it then. A call and a branch are given the scales, and return them.
    """
    if called(eqn) is not None or eqn.primitive.name == "cond" or not any(isinstance(x, Scaled) for x in operands):
        return eqn, list(operands), 0
    scale = _scale_of_results(eqn, operands)
    if scale is None:
        taken, scale = [itself(x, precision) for x in operands], 0
    elif has(eqn.primitive.name, _ALIKE):
        taken = [at(x, scale, precision) for x in operands]
    else:
        taken = [(x, e) for x, e in operands]
    same = [_scale(x) == scale or y[0] is x[0] for x, y in zip(operands, taken, strict=True)]
    atoms = [atom if keep else core.Var(atom.aval) for atom, keep in zip(eqn.invars, same, strict=True)]
    return eqn.replace(invars=atoms), taken, scale


def with_scale(eqn: core.JaxprEqn, outputs: Sequence[Pair], scale: int) -> list[Pair]:
    """The results of an equation, whose numbers are divided by 2 ** scale."""
    if eqn.primitive.name == "lu":
        (packed, error), *others = outputs
        true = np.tril(packed, -1) + _times(np.triu(packed), scale)
        return [Scaled((packed, error), scale, (true, np.full(true.shape, np.inf)), factors=True), *others]
    return [Scaled(pair, scale) if scale and pair[0].dtype.kind in "fc" else pair for pair in outputs]


def at(pair: Pair, scale: int, precision: Precision) -> Pair:
    """A number divided by 2 ** scale, without saying so; what is no floating-point number is left as it is."""
    if pair[0].dtype.kind not in "fc":
        return pair
    x, e = _shifted(pair, _scale(pair) - scale, precision)
    return x, e


def common(pairs: Sequence[Pair]) -> int:
    """The scale at which numbers are added to each other."""
    return max((_scale(pair) for pair in pairs if _has_scale(pair)), default=0)


def _has_scale(pair: Pair) -> bool:
    """An exact zero is one at any scale, and an integer has none."""
    if isinstance(pair, Scaled):
        return not pair.only_if_multiplied
    return pair[0].dtype.kind in "fc" and bool(np.any(pair[0]) or np.any(pair[1]))


def _scale_of_results(eqn: core.JaxprEqn, operands: Sequence[Pair]) -> int | None:
    """None if the operation is of the numbers themselves."""
    name, scales = eqn.primitive.name, [_scale(x) for x in operands]
    factors = any(isinstance(x, Scaled) and x.factors for x in operands)
    if name == "triangular_solve":
        return scales[1] - (0 if eqn.params["unit_diagonal"] else scales[0])
    if name == "custom_linear_solve":
        return _scale_of_solution(eqn, operands)
    if factors or not jnp.issubdtype(getattr(eqn.outvars[0].aval, "dtype", np.bool_), jnp.inexact):
        return None
    if has(name, Kind.BILINEAR):
        return sum(scales)
    if name == "div":
        return scales[0] - scales[1]
    if name == "lu":
        return scales[0]
    return common(operands) if has(name, _ALIKE) else None


def _scale_of_solution(eqn: core.JaxprEqn, operands: Sequence[Pair]) -> int | None:
    """The scale of the solution of a system of one matrix, by its LU factors; the solver gets a divided right side."""
    lengths = eqn.params["const_lengths"]
    matrix, b = operands[: lengths.matvec], operands[sum(lengths) :]
    factors = operands[lengths.matvec + lengths.vecmat :][: lengths.solve]
    of_numbers = [x for x in (*matrix, *factors) if x[0].dtype.kind in "fc"]
    if len(matrix) != 1 or len(b) != 1 or any(_scale(x) != _scale(matrix[0]) for x in of_numbers):
        return None
    return _scale(b[0]) - _scale(matrix[0])


def _scale(pair: Pair) -> int:
    return pair.scale if isinstance(pair, Scaled) else 0


def _shifted(pair: Pair, power: int, precision: Precision) -> Pair:
    """A number times a power of two: a smaller one may underflow."""
    x, e = pair
    if power == 0:
        return x, e
    lost = np.where((x == 0) & (e == 0), 0.0, precision.tiny if power < 0 else 0.0)
    return _times(x, power), _times(e, power) + lost


def _times(x: np.ndarray, power: int) -> np.ndarray:
    """x 2 ** power, in two steps: the power by itself may overflow."""
    half = power // 2
    return x * np.ldexp(1.0, half) * np.ldexp(1.0, power - half)


def _largest(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0))
