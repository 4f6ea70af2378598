"""A program that has run, with what each of its equations may round, and the derivatives of what follows.

Its equations are rounded one by one, with exact operands. Only what may overflow is passed on, as the rules have it:
an infinite error is not one of first order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.rounding.bounds import Bounds, Followed, constant_of
from parity_tests.harness.rounding.compared import compared, is_real
from parity_tests.harness.rounding.fused import Sums
from parity_tests.harness.rounding.overflow import Overflowing
from parity_tests.harness.rounding.products import Products
from parity_tests.harness.rounding.pullbacks import NoDerivative, pulled_back
from parity_tests.harness.rounding.steps import plan_of
from parity_tests.harness.rounding.unrolled import unrolled

Pair = tuple[np.ndarray, np.ndarray]

MOST_OF_A_PRODUCT = 16  # roundings; the steps of a chain multiply thousands
_SOME = 1e-290  # an error that is there, and changes nothing

_SMOOTH = (
    Kind.SMOOTH | Kind.ADDS | Kind.LINEAR | Kind.BILINEAR | Kind.PRODUCT | Kind.SUM | Kind.FUNCTION | Kind.HOMOGENEOUS
)
_SAME = Kind.MOVES | Kind.MOVES_UNFOLLOWED | Kind.KEEPS_SIZE | Kind.SELECTS  # of which no entry is a new number


class NotFollowed(Exception):
    """Raised where a program has no linearized bound."""


@dataclass(frozen=True)
class Asked:
    """Quantities whose errors are asked for, one a row.

    Attributes:
        terms: what they are sums of: a variable, for each row the place of an entry in it, and its sign.
        rows: how many they are.
    """

    terms: Sequence[tuple[Any, np.ndarray, float]]
    rows: int


@dataclass(frozen=True)
class Tape:
    """A program that has run.

    Attributes:
        jaxpr: its equations, in their order, without calls and loops.
        values: of each variable.
        own: how far each entry of a variable may be off if everything before it is exact; 0 of what is exact, and
            infinite of what an overflow leaves without a bound.
        running: the bounds of the running analysis.
        precision: the format.
    """

    jaxpr: core.Jaxpr
    values: dict[core.Var, np.ndarray]
    own: dict[core.Var, np.ndarray]
    running: dict[core.Var, np.ndarray]
    precision: Precision

    @classmethod
    def of(cls, program: core.ClosedJaxpr, args: Sequence[np.ndarray], p: Precision, inputs: int) -> Tape:
        """Run a program.

        Must run inside `np.errstate(all="ignore")`.

        Raises:
            NotFollowed: it has an equation of real numbers without a derivative, or complex numbers.
            NotUnrolled: it has branches, a `while`, or a linear recurrence.
        """
        flat = unrolled(program)
        jaxpr = flat.jaxpr
        for eqn in jaxpr.eqns:
            _verify_followed(eqn)
        given = [(np.asarray(x), np.where(np.isfinite(x), inputs * p.u * np.abs(x), 0.0)) for x in args]
        pairs = [*(constant_of(np.asarray(c), p) for c in flat.consts), *given]
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], pairs, strict=True))
        tape = cls(jaxpr, {x: y for x, (y, _) in known.items()}, {x: e for x, (_, e) in known.items()}, {}, p)
        exact = {x: _negligible(pair) for x, pair in known.items()}
        domains = Bounds(p), Bounds(p, Followed(Sums(), Products(MOST_OF_A_PRODUCT)))
        for step in plan_of(jaxpr).steps:
            ran, alone = (
                domain.with_losses(step, [_operand(of, x, p) for x in step.eqn.invars])
                for of, domain in zip((known, exact), domains, strict=True)
            )
            again = 0 if has(step.name, _SAME) else inputs
            for x, pair, (y, e) in zip(step.eqn.outvars, ran, alone, strict=True):
                known[x] = pair
                tape.values[x], tape.own[x] = y, np.where(e > 0, e + again * p.u * np.abs(y), 0.0)
            exact.update(zip(step.eqn.outvars, map(_negligible, alone), strict=True))
        tape.running.update({x: e for x, (_, e) in known.items()})
        return tape

    @property
    def results(self) -> Sequence[Any]:
        """The variables, or literals, of its results."""
        return self.jaxpr.outvars

    @property
    def numbers(self) -> int:
        """How many real numbers it makes, and is given."""
        return max(1, sum(y.size for y in self.values.values() if y.dtype == np.float64))

    def value(self, atom: Any) -> np.ndarray:
        """The value of a variable or a literal."""
        return np.asarray(atom.val) if isinstance(atom, core.Literal) else self.values[atom]

    def own_of(self, atom: Any) -> np.ndarray:
        """How far a variable or a literal may be off by itself."""
        return constant_of(self.value(atom), self.precision)[1] if isinstance(atom, core.Literal) else self.own[atom]

    def running_of(self, atom: Any) -> np.ndarray:
        """The bound that the running analysis has of a variable or a literal."""
        return self.own_of(atom) if isinstance(atom, core.Literal) else self.running[atom]

    def derivatives(self, asked: Sequence[Asked]) -> dict[core.Var, np.ndarray]:
        """Return the derivatives of all that is asked by each variable, with a first axis for what is asked.

        Raises:
            NotFollowed: an operand that may be off has no derivative.
        """
        found: dict[core.Var, np.ndarray] = {}
        rows = sum(each.rows for each in asked)

        def of(x: Any) -> np.ndarray:
            return found.setdefault(x, np.zeros((rows, *self.values[x].shape)))

        start = 0
        for each in asked:
            for x, places, sign in each.terms:
                if not isinstance(x, core.Literal) and is_real(x):
                    of(x).reshape(rows, -1)[np.arange(start, start + each.rows), places] += sign
            start += each.rows
        for eqn in reversed(self.jaxpr.eqns):
            variables = [i for i, x in enumerate(eqn.invars) if is_real(x) and not isinstance(x, core.Literal)]
            moved = [i for i in variables if self.running_of(eqn.invars[i]).any()]  # of no other is an error charged
            if not moved or not any(y in found for y in eqn.outvars):
                continue
            of_results = [of(y) for y in eqn.outvars]
            if has(eqn.primitive.name, Kind.ITSELF):
                pulled = of_results
            else:
                try:
                    pulled = pulled_back(eqn, tuple(moved), [*map(self.value, eqn.invars)], of_results)
                except NoDerivative as error:
                    raise NotFollowed from error
            for i, c in zip(moved, pulled, strict=True):
                of(eqn.invars[i])[...] += c
        return found

    def charged(self, derivatives: Mapping[core.Var, np.ndarray], rows: Sequence[int]) -> list[np.ndarray]:
        """Return the error that all roundings make in each of the `Asked`, by these derivatives; `rows`: of each."""
        total = np.zeros(sum(rows))
        for x, c in derivatives.items():
            own = self.own[x].ravel()
            some = (own > 0) & np.isfinite(own)
            total += np.abs(c.reshape(len(total), -1)[:, some]) @ own[some]
        return [total[start:end] for start, end in itertools.pairwise(np.cumsum([0, *rows]))]

    def moved(self, directions: Mapping[core.Var, np.ndarray], otherwise: float) -> list[np.ndarray]:
        """The results, with every entry off by as much as it may be by itself, times a number.

        `directions`: these numbers, for each entry of a variable; `otherwise`: for those of all others.
        """
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
        return [read(x) for x in self.jaxpr.outvars]


def _operand(known: Mapping[core.Var, Pair], atom: Any, p: Precision) -> Pair:
    return constant_of(np.asarray(atom.val), p) if isinstance(atom, core.Literal) else known[atom]


def _negligible(pair: Pair) -> Pair:
    """A number without its error, but for one that has no bound.

    What has an error keeps one, so that no rule takes it for exact; one of integers and booleans is kept as it is.
    """
    y, e = pair
    if y.dtype.kind != "f":
        return pair
    some = np.where(np.isinf(e), np.inf, np.where(e > 0, _SOME, 0.0))
    if not isinstance(pair, Overflowing):
        return y, some
    return Overflowing((y, some), np.where(np.isinf(e), pair.within, some))


def _verify_followed(eqn: core.JaxprEqn) -> None:
    """Refuse an equation of real numbers that has no derivative.

    Raises:
        NotFollowed: it is one.
    """
    if any(getattr(x.aval, "dtype", np.dtype(bool)).kind == "c" for x in (*eqn.invars, *eqn.outvars)):
        raise NotFollowed
    name = eqn.primitive.name
    no_new_number = name == "is_finite" or has(name, Kind.ITSELF)
    if not any(map(is_real, eqn.invars)) or compared(eqn) or no_new_number:
        return
    if not has(name, _SMOOTH | _SAME) or not all(map(is_real, eqn.outvars)):
        raise NotFollowed
