"""Runs of a program in a short format, as right code would compute it: every result rounded, to nearest or at random.

A sum is added up in a wider format and rounded once, but for a scatter-add, which is added up where it is stored.

Stochastic rounding replaces a number by one of its two neighbours in the format, with the probabilities that make its
mean exact. What the format holds stays as it is, as with rounding to nearest; the error has no direction, and two runs
round independently. Their errors therefore have the size, the distribution over the entries and the correlations (a
number that is used often is rounded once) of those that a right computation in the format makes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.rounding.control_flow import operands_of_scan
from parity_tests.harness.rounding.evaluation import called, closed, evaluated
from parity_tests.harness.rounding.evaluation_indexing import BY_PARAMETERS, addressed


@dataclass(frozen=True)
class StochasticRounding:
    """Rounds to a format of real numbers at random; what is beyond its largest number, or not finite, not at all."""

    precision: Precision
    rng: np.random.Generator

    def __call__(self, x: Any) -> np.ndarray:
        """The number, or an array of numbers, rounded; what is no float64 as it is."""
        x = np.asarray(x)
        if x.dtype != np.float64:
            return x
        spacing = self.precision.spacing(x)
        steps = x / spacing
        below = np.floor(steps)
        exact = below == steps
        if exact.all():
            return x
        up = self.rng.random(x.shape, np.float32) < steps - below
        return np.where(exact | ~np.isfinite(x), x, (below + up) * spacing)

    def by_logarithm(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A quotient y = a / s as exp(log a - log s) would have it: see `rounding.analysis`; alike for equal s."""
        values, place = np.unique(s, return_inverse=True)
        change = 2 * self.precision.u * np.abs(np.log(np.abs(values))) * self.rng.uniform(-1, 1, values.shape)
        return _times_exp(y, change[place.reshape(s.shape)])


@dataclass(frozen=True)
class RoundingToNearest:
    """Rounds to a format of real numbers as hardware does: what it does to numbers in the same place is no chance."""

    precision: Precision

    def __call__(self, x: Any) -> np.ndarray:
        """The number, or an array of numbers, rounded; what is no float64 as it is."""
        x = np.asarray(x)
        return self.precision.rounded(x) if x.dtype == np.float64 else x

    def by_logarithm(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A quotient y = a / s as exp(log a - log s) would have it: see `rounding.analysis`."""
        logarithm = np.log(np.abs(s))
        return _times_exp(y, logarithm - self.precision.rounded(logarithm))


def _times_exp(y: np.ndarray, change: np.ndarray) -> np.ndarray:
    return y * np.exp(np.where(np.isfinite(change), change, 0.0))


class AsItIs:
    """Rounds nothing."""

    def __call__(self, x: Any) -> np.ndarray:
        """The number, or an array of numbers."""
        return np.asarray(x)

    def by_logarithm(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """A quotient."""
        return y


Rounding = StochasticRounding | RoundingToNearest | AsItIs


class Everywhere:
    """Every constant is rounded, and the result of every equation."""

    constants = True

    def at(self, eqn: core.JaxprEqn, fixed: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which operands of an equation are rounded, and whether its results are; `fixed`: the constants."""
        return [False] * len(fixed), True

    def within(self, eqn: core.JaxprEqn) -> Where:
        """Return where in the steps of a loop, or in what an equation calls."""
        return self


@dataclass(frozen=True)
class Beside:
    """Results, but for what is seen to be computed in float32; and whatever is loaded, as if it had been stored.

    Attributes:
        spared: the variables that are not rounded.
    """

    spared: frozenset[core.Var]
    constants = False

    def at(self, eqn: core.JaxprEqn, fixed: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which operands of an equation are rounded, and whether its results are; `fixed`: the constants."""
        if self.spared.issuperset(eqn.outvars):
            return [False] * len(fixed), False
        return [True] * len(fixed), True

    def within(self, eqn: core.JaxprEqn) -> Where:
        """Return where in the steps of a loop, or in what an equation calls."""
        return NOWHERE if self.spared.issuperset(eqn.outvars) else self


@dataclass(frozen=True)
class OfConstants:
    """What is computed from constants alone, where it meets other numbers; or nothing at all."""

    rounds: bool = True
    constants = False

    def at(self, eqn: core.JaxprEqn, fixed: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which operands of an equation are rounded, and whether its results are; `fixed`: the constants."""
        return [is_fixed and self.rounds and not all(fixed) for is_fixed in fixed], False

    def within(self, eqn: core.JaxprEqn) -> Where:
        """Return where in the steps of a loop, or in what an equation calls."""
        return self


Where = Everywhere | Beside | OfConstants
EVERYWHERE, NOWHERE = Everywhere(), OfConstants(rounds=False)


def simulated(
    program: core.ClosedJaxpr, args: Sequence[np.ndarray], stored: Rounding, where: Where = EVERYWHERE
) -> list[np.ndarray]:
    """The outputs of a program at float64 arguments if each constant and each operation's result is rounded.

    Loops are run step by step.
    """
    with np.errstate(all="ignore"):
        return _run_closed(program, args, stored, where)


def _run_closed(
    program: core.ClosedJaxpr | core.Jaxpr, args: Sequence, stored: Rounding, where: Where
) -> list[np.ndarray]:
    program = closed(program)
    jaxpr, known = program.jaxpr, dict[core.Var, np.ndarray]()
    constant, constants = stored if where.constants else AsItIs(), {*jaxpr.constvars}

    def read(atom: core.Var | core.Literal) -> np.ndarray:
        return constant(atom.val) if isinstance(atom, core.Literal) else known[atom]

    known.update(zip(jaxpr.constvars, map(constant, program.consts), strict=True))
    known.update(zip(jaxpr.invars, args, strict=True))
    logs = [eqn.invars[0] for eqn in jaxpr.eqns if eqn.primitive.name == "log"]
    for eqn in jaxpr.eqns:
        fixed = [isinstance(atom, core.Literal) or atom in constants for atom in eqn.invars]
        if all(fixed):
            constants.update(eqn.outvars)
        takes, makes = where.at(eqn, fixed)
        x = [stored(read(atom)) if rounds else read(atom) for atom, rounds in zip(eqn.invars, takes, strict=True)]
        rounding = stored if makes else AsItIs()
        y = _outputs(eqn, x, rounding, functools.partial(_run_closed, stored=stored, where=where.within(eqn)))
        if eqn.primitive.name == "div" and any(eqn.invars[1] is s for s in logs):
            y = [rounding.by_logarithm(x[1], y[0])]
        known.update(zip(eqn.outvars, y, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _outputs(
    eqn: core.JaxprEqn, x: list[np.ndarray], stored: Rounding, run: Callable[..., list[np.ndarray]]
) -> list[np.ndarray]:
    inner = called(eqn)
    if inner is not None:
        return run(inner, x)
    name, params = eqn.primitive.name, eqn.params
    if name == "cond":
        return run(params["branches"][int(np.clip(x[0], 0, len(params["branches"]) - 1))], x[1:])
    if name == "while":
        return _while(params, x, run)
    if name == "scan":
        return _scan(params, x, run)
    if name == "custom_linear_solve":
        return _linear_solve(params, x, run)
    if name == "scatter-add" and BY_PARAMETERS[name][1](eqn, x):
        operand, indices, updates = x
        return [_scattered_sum(operand, *addressed(operand, indices, updates, **params), stored)]
    y = evaluated(eqn, *x)
    return [stored(value) for value in (y if eqn.primitive.multiple_results else [y])]


def _scattered_sum(x: np.ndarray, positions: np.ndarray, updates: np.ndarray, stored: Rounding) -> np.ndarray:
    """Added up where it is stored, as `rounding.indexing` bounds it: every partial sum is rounded."""
    y = x.flatten()
    by_position = np.argsort(positions, kind="stable")
    at, update = positions[by_position], updates[by_position]
    _, first, count = np.unique(at, return_index=True, return_counts=True)
    for place in range(int(count.max(initial=0))):  # the first update of every entry, then the second
        following = first[count > place] + place
        y[at[following]] = stored(y[at[following]] + update[following])
    return y.reshape(x.shape)


def _while(params: Any, x: list[np.ndarray], run: Callable[..., list[np.ndarray]]) -> list[np.ndarray]:
    of_cond, of_body = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carried = x[of_body:]
    while run(params["cond_jaxpr"], [*x[:of_cond], *carried])[0]:
        carried = run(params["body_jaxpr"], [*x[of_cond:of_body], *carried])
    return carried


def _scan(params: Any, x: list[np.ndarray], run: Callable[..., list[np.ndarray]]) -> list[np.ndarray]:
    consts, carried, sequences = operands_of_scan(params, x)
    count, steps = len(carried), range(params["length"])
    results: list[list[np.ndarray]] = [[] for _ in closed(params["jaxpr"]).jaxpr.outvars[count:]]
    for step in reversed(steps) if params["reverse"] else steps:
        outputs = run(params["jaxpr"], [*consts, *carried, *(a[step] for a in sequences)])
        carried = outputs[:count]
        for result, y in zip(results, outputs[count:], strict=True):
            result.append(y)
    shapes = [(var.aval.shape, var.aval.dtype) for var in closed(params["jaxpr"]).jaxpr.outvars[count:]]
    stacked = [
        np.stack(y[::-1] if params["reverse"] else y) if y else np.zeros((0, *shape), dtype)
        for y, (shape, dtype) in zip(results, shapes, strict=True)
    ]
    return [*carried, *stacked]


def _linear_solve(params: Any, x: list[np.ndarray], run: Callable[..., list[np.ndarray]]) -> list[np.ndarray]:
    lengths, count = params["const_lengths"], sum(params["const_lengths"])
    of_solve = x[lengths.matvec + lengths.vecmat :][: lengths.solve]
    return run(params["jaxprs"].solve, [*of_solve, *x[count:]])
