"""A bound to first order, where the running one has no power: each rounding by the derivative of what remains.

The running analysis passes on the errors of two operands as if they were independent. In r / Σ r they are not: they
cancel, and a program that divides so twenty times (Sinkhorn's steps, a norm in a recurrence, Newton-Schulz) gets a
bound that doubles with each step. Here a program is a list of equations x_j = f_j(...), each of which rounds by ρ_j at
most, and with C_ij = ∂y_i / ∂x_j the derivative of all that follows,

    E(y_i) = Σ_j |C_ij| (ρ_j + 2 u |x_j|) (1 + R)

ρ_j is what the rule of the equation says of exact operands, with what is lost in another order (of 17 factors at most).
An input has 2 u |x|, as in the running analysis, and so has each intermediate, since right code may be another program:
it has the right intermediates of nearly these, as a stable algorithm has. R is the share of second order. It is
measured, not bounded: along the roundings that are worst for the worst entry, all at once, and against them (in
float64, 2^13 times as large).
Where R exceeds a half there is no bound of first order, nor where

    a comparison, a kink or a jump is nearer than its own bound of first order;
    a primitive has no derivative, or the program has branches, a `while`, or complex numbers;
    the derivatives take more than 2^24 numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.rounding.analysis import Followed, constant_of, with_losses
from parity_tests.harness.rounding.evaluation import evaluate, evaluated
from parity_tests.harness.rounding.fused import Sums
from parity_tests.harness.rounding.overflow import Overflowing
from parity_tests.harness.rounding.products import Products
from parity_tests.harness.rounding.pullbacks import pullback
from parity_tests.harness.rounding.registry import Kind, has
from parity_tests.harness.rounding.steps import plan_of
from parity_tests.harness.rounding.stored import stored
from parity_tests.harness.rounding.unrolled import NotUnrolled, unrolled

Pair = tuple[np.ndarray, np.ndarray]

MOST_NUMBERS = 2**24
MOST_OF_SECOND_ORDER = 0.5
MOST_OF_A_PRODUCT = 16  # roundings; the steps of a chain multiply thousands
_SOME = 1e-290  # an error that is there, and changes nothing
_ALONG = 2.0**-40  # the smallest roundoff along which the second order is measured

_SMOOTH = Kind.ADDS | Kind.LINEAR | Kind.BILINEAR | Kind.PRODUCT | Kind.SUM | Kind.FUNCTION | Kind.HOMOGENEOUS
_SAME = Kind.MOVES | Kind.MOVES_UNFOLLOWED | Kind.KEEPS_SIZE | Kind.SELECTS  # of which no entry is a new number
_SMOOTH_TOO = frozenset({"div", "dynamic_update_slice", "scatter", "triangular_solve", "cholesky"})
_IDENTITIES = frozenset({"stop_gradient", "name", "copy", "copy_p"})
_COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})  # and have no derivative
_TAKE_ONE = frozenset({"max", "min"})
_TAKE_ONE_OF_ALL = frozenset({"reduce_max", "reduce_min"})
_TURN_AT_ZERO = frozenset({"abs", "sign"})


class NotFollowed(Exception):
    """Raised where a program has no bound of first order."""


def narrowed(
    program: core.ClosedJaxpr, args: Sequence[np.ndarray], running: Sequence[Pair], precision: Precision, inputs: int
) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """The results of a program with their bounds: those of `running`, or of first order where these have no power.

    A running bound has power where it leaves half of the format's digits: where it is at most √u times the largest
    entry of its result. No bound of first order is smaller than that, since right code of another structure may lose
    what the roundings of this program do not. The third of each result is True if a bound of it is of first order.

    Must run inside `numerics.pinned()` (float64 on).

    Args:
        program: as of `analysis.bounded`.
        args: its arguments.
        running: what `analysis.bounded` finds for them.
        precision: the format and its contract.
        inputs: the roundings of an input that a computation may be equivalent to.
    """
    halves = [_half_of_the_digits(y, precision) for y, _ in running]
    weak = [np.isfinite(y) & (e > half) & (half > 0) for (y, e), half in zip(running, halves, strict=True)]
    bounds = _bounds(program, args, precision, inputs) if any(map(np.any, weak)) else None
    if bounds is None:
        return [(y, e, False) for y, e in running]
    found = []
    for (y, e), bound, half, where in zip(running, bounds, halves, weak, strict=True):
        narrow = np.maximum(bound, half)
        better = where & (narrow < e)
        found.append((y, np.where(better, narrow, e), bool(better.any())))
    return found


def _half_of_the_digits(y: np.ndarray, precision: Precision) -> float:
    """√u times the largest entry of a result; 0 of integers."""
    return math.sqrt(precision.u) * np.max(np.abs(y), initial=0.0, where=np.isfinite(y)) if y.dtype.kind == "f" else 0.0


def _bounds(
    program: core.ClosedJaxpr, args: Sequence[np.ndarray], precision: Precision, inputs: int
) -> list[np.ndarray] | None:
    """Bounds of first order for all results, under the contract of the format; None if there are none."""
    contract, inside = precision.arithmetic, precision
    if contract.inside == "float32":
        if contract.stored:
            return None
        inside = replace(precision.single, any_choice=precision.any_choice, any_order=precision.any_order)
    try:
        with np.errstate(all="ignore"):
            pairs = _Tape.of(program, args, inside, inputs).bounded()
    except (NotFollowed, NotUnrolled):
        return None
    return [e if inside is precision else stored((y, e), precision)[1] for y, e in pairs]


@dataclass(frozen=True)
class _Asked:
    """Quantities whose errors are asked for, one a row.

    Attributes:
        terms: what they are sums of: a variable, for each row the place of an entry in it, and its sign.
        rows: how many they are.
        apart: of differences, how large each is, if a sign that rounding changes would change the program.
    """

    terms: Sequence[tuple[Any, np.ndarray, float]]
    rows: int
    apart: np.ndarray | None = None


@dataclass(frozen=True)
class _Tape:
    """A program that has run.

    Attributes:
        jaxpr: its equations, in their order.
        values: of each variable.
        own: how far each entry of a variable may be off if everything before it is exact; 0 of what is exact, and
            infinite of what an overflow leaves without a bound.
        passed_on: the operand that a variable is: with no error to speak of, or with one that has no bound.
        precision: the format.
    """

    jaxpr: core.Jaxpr
    values: dict[core.Var, np.ndarray]
    own: dict[core.Var, np.ndarray]
    passed_on: dict[core.Var, Pair]
    precision: Precision

    @classmethod
    def of(cls, program: core.ClosedJaxpr, args: Sequence[np.ndarray], p: Precision, inputs: int) -> _Tape:
        """Run a program, with exact operands for every equation."""
        flat = unrolled(program)
        jaxpr = flat.jaxpr
        given = [(np.asarray(x), np.where(np.isfinite(x), inputs * p.u * np.abs(x), 0.0)) for x in args]
        pairs = [*(constant_of(np.asarray(c), p) for c in flat.consts), *given]
        tape = cls(jaxpr, {}, {}, {}, p)
        for x, pair in zip([*jaxpr.constvars, *jaxpr.invars], pairs, strict=True):
            tape._add(x, pair)
        followed = Followed(Sums(), Products(MOST_OF_A_PRODUCT))
        for step in plan_of(jaxpr).steps:
            _verify_followed(step.eqn)
            operands = [
                tape._pair(atom) if isinstance(atom, core.Literal) else tape.passed_on[atom] for atom in step.eqn.invars
            ]
            again = 0 if has(step.name, _SAME) else inputs
            for x, pair in zip(step.eqn.outvars, with_losses(step, operands, p, followed), strict=True):
                tape._add(x, pair, again)
        return tape

    def _add(self, x: core.Var, pair: Pair, again: int = 0) -> None:
        y, e = pair
        self.values[x], self.own[x] = y, np.where(e > 0, e + again * self.precision.u * np.abs(y), 0.0)
        self.passed_on[x] = _negligible(pair)

    def _pair(self, atom: Any) -> Pair:
        if isinstance(atom, core.Literal):
            return constant_of(np.asarray(atom.val), self.precision)
        return self.values[atom], self.own[atom]

    def bounded(self) -> list[Pair]:
        """The results with their bounds of first order.

        Raises:
            NotFollowed: there are none; see the module.
        """
        results = [self._pair(x)[0] for x in self.jaxpr.outvars]
        asked = [*map(_all_of, self.jaxpr.outvars, results), *self._choices()]
        rows = sum(each.rows for each in asked)
        if rows * sum(y.size for y in self.values.values() if y.dtype == np.float64) > MOST_NUMBERS:
            raise NotFollowed
        derivatives, total = self._derivatives(asked, rows), np.zeros(rows)
        for x, c in derivatives.items():
            total += _charged(c.reshape(rows, -1), self.own[x].ravel())
        starts = np.cumsum([0, *(each.rows for each in asked)])
        parts = [total[start:end] for start, end in itertools.pairwise(starts)]
        if any(each.apart is not None and not (e < each.apart).all() for each, e in zip(asked, parts, strict=True)):
            raise NotFollowed
        bounds = [
            np.where(np.isinf(self._pair(x)[1]), np.inf, e.reshape(y.shape))
            for x, y, e in zip(self.jaxpr.outvars, results, parts, strict=False)
        ]
        worst = [
            start + np.argmax(np.where(np.isfinite(e), e, -1.0))
            for start, e in zip(starts, parts, strict=False)
            if e.size
        ]
        share = max((self._second_order(derivatives, row, bounds) for row in worst[: len(bounds)]), default=0.0)
        return [(y, e * (1 + share)) for y, e in zip(results, bounds, strict=True)]

    def _derivatives(self, asked: Sequence[_Asked], rows: int) -> dict[core.Var, np.ndarray]:
        """Those of all that is asked by each variable, with a first axis for what is asked."""
        found: dict[core.Var, np.ndarray] = {}

        def of(x: Any) -> np.ndarray:
            return found.setdefault(x, np.zeros((rows, *self.values[x].shape)))

        start = 0
        for each in asked:
            for x, places, sign in each.terms:
                if not isinstance(x, core.Literal) and x.aval.dtype == np.float64:
                    of(x).reshape(rows, -1)[np.arange(start, start + each.rows), places] += sign
            start += each.rows
        for eqn in reversed(self.jaxpr.eqns):
            moved = [i for i, x in enumerate(eqn.invars) if _is_real(x) and not isinstance(x, core.Literal)]
            if not moved or not any(y in found for y in eqn.outvars):
                continue
            of_results = [of(y) for y in eqn.outvars]
            if eqn.primitive.name in _IDENTITIES:
                pulled = of_results
            else:
                operands = [self._pair(x)[0] for x in eqn.invars]
                pulled = evaluate(pullback(eqn, tuple(moved), rows), *operands, *of_results)
            for i, c in zip(moved, pulled, strict=True):
                of(eqn.invars[i])[...] += c
        return found

    def _choices(self) -> Iterator[_Asked]:
        """The differences by whose signs the program goes, where rounding may reach them.

        Raises:
            NotFollowed: two inexact numbers are equal at a kink.
        """
        for eqn in self.jaxpr.eqns:
            for x, y in _compared(eqn):
                (a, of_a), (b, of_b) = self._pair(x), (np.zeros(()), np.zeros(())) if y is None else self._pair(y)
                at_a, at_b = (np.arange(value.size).reshape(value.shape) for value in (a, b))
                if eqn.primitive.name in _TAKE_ONE_OF_ALL:
                    b, of_b, at_b = (np.expand_dims(each, tuple(eqn.params["axes"])) for each in (b, of_b, at_b))
                inexact = np.broadcast_to((of_a > 0) | (of_b > 0), np.broadcast_shapes(a.shape, b.shape))
                if _is_kink(eqn) and _tied(eqn, a, b, inexact):
                    raise NotFollowed
                reached = inexact & (a != b) & np.isfinite(of_a + of_b)
                at_a, at_b, apart = (
                    np.broadcast_to(each, reached.shape)[reached] for each in (at_a, at_b, np.abs(a - b))
                )
                terms = [(x, at_a, 1.0)] if y is None else [(x, at_a, 1.0), (y, at_b, -1.0)]
                yield _Asked(terms, len(apart), apart)

    def _second_order(self, derivatives: dict[core.Var, np.ndarray], row: int, bounds: Sequence[np.ndarray]) -> float:
        """How far the worst roundings of one entry take the results from what first order says, as a share of it.

        Raises:
            NotFollowed: by more than `MOST_OF_SECOND_ORDER`.
        """
        times = max(1.0, _ALONG / self.precision.u)
        bound, shares = np.concatenate([e.ravel() for e in bounds]), [0.0]
        for sign in (times, -times):
            moved = self._moved({x: sign * np.where(c[row] < 0, -1.0, 1.0) for x, c in derivatives.items()}, sign)
            off = np.concatenate([np.abs(y - self._pair(x)[0]).ravel() for x, y in moved]) / times
            told = np.isfinite(bound) & ((bound > 0) | (off != 0))
            shares += [
                np.max(off[told] / bound[told] - 1, initial=0.0),
                1 - off[row] / bound[row] if told[row] else 0.0,
            ]
        if not np.max(shares) <= MOST_OF_SECOND_ORDER:  # NaN is not, either
            raise NotFollowed
        return float(np.max(shares))

    def _moved(self, directions: Mapping[core.Var, np.ndarray], otherwise: float) -> list[tuple[Any, np.ndarray]]:
        """The results, with every entry off by as much as it may be by itself, so many times."""
        known: dict[core.Var, np.ndarray] = {}

        def add(x: core.Var, value: np.ndarray) -> None:
            own = np.where(np.isfinite(self.own[x]), self.own[x], 0.0)
            known[x] = value + directions.get(x, otherwise) * own if value.dtype == np.float64 else value

        def read(atom: Any) -> np.ndarray:
            return np.asarray(atom.val) if isinstance(atom, core.Literal) else known[atom]

        for x in (*self.jaxpr.constvars, *self.jaxpr.invars):
            add(x, self.values[x])
        for eqn in self.jaxpr.eqns:
            found = evaluated(eqn, *map(read, eqn.invars))
            for x, y in zip(eqn.outvars, found if eqn.primitive.multiple_results else [found], strict=True):
                add(x, np.asarray(y))
        return [(x, read(x)) for x in self.jaxpr.outvars]


def _all_of(x: Any, value: np.ndarray) -> _Asked:
    return _Asked([(x, np.arange(value.size), 1.0)], value.size)


def _negligible(pair: Pair) -> Pair:
    """A number without its error, but for one that has no bound: an overflow is passed on as the rules have it.

    What has an error keeps one, so that no rule takes it for exact; one of integers and booleans is kept as it is.
    """
    y, e = pair
    if y.dtype.kind != "f":
        return pair
    some = np.where(np.isinf(e), np.inf, np.where(e > 0, _SOME, 0.0))
    if not isinstance(pair, Overflowing):
        return y, some
    return Overflowing((y, some), np.where(np.isinf(e), pair.within, some))


def _charged(c: np.ndarray, own: np.ndarray) -> np.ndarray:
    """What roundings add to each row."""
    some = (own > 0) & np.isfinite(own)
    return np.abs(c[:, some]) @ own[some]


def _verify_followed(eqn: core.JaxprEqn) -> None:
    """Refuse an equation of real numbers that has no derivative.

    Raises:
        NotFollowed: it is one.
    """
    if any(getattr(x.aval, "dtype", np.dtype(bool)).kind == "c" for x in (*eqn.invars, *eqn.outvars)):
        raise NotFollowed
    name, moves = eqn.primitive.name, any(map(_is_real, eqn.invars))
    if not moves or _compared(eqn) or name in _IDENTITIES or name in _SMOOTH_TOO or name == "is_finite":
        return
    if not has(name, _SMOOTH | _SAME) or not all(map(_is_real, eqn.outvars)):
        raise NotFollowed


def _is_real(atom: Any) -> bool:
    return getattr(atom.aval, "dtype", None) == np.float64


def _compared(eqn: core.JaxprEqn) -> list[tuple[Any, Any]]:
    """The pairs of variables by whose order an equation goes; None stands for 0."""
    name, x = eqn.primitive.name.removesuffix("_to"), eqn.invars
    if not any(map(_is_real, x)):
        return []
    if name in _COMPARE or name in _TAKE_ONE:
        return [(x[0], x[1])]
    if name == "clamp":
        return [(x[1], x[0]), (x[1], x[2])]
    if name in _TAKE_ONE_OF_ALL:
        return [(x[0], eqn.outvars[0])]
    return [(x[0], None)] if name in _TURN_AT_ZERO else []


def _is_kink(eqn: core.JaxprEqn) -> bool:
    return _is_real(eqn.outvars[0])


def _tied(eqn: core.JaxprEqn, a: np.ndarray, b: np.ndarray, inexact: np.ndarray) -> bool:
    """Return whether inexact numbers are equal between which an equation chooses."""
    equal = inexact & (a == b)
    if eqn.primitive.name not in _TAKE_ONE_OF_ALL:
        return bool(equal.any())
    return bool((np.count_nonzero(equal, axis=tuple(eqn.params["axes"])) > 1).any())
