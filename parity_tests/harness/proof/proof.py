"""Whether two programs compute the same, at one shape: by their results at random points of several fields."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.proof.constants import Constant
from parity_tests.harness.proof.domain import Fields
from parity_tests.harness.proof.fields import PRIMES, NoInverse
from parity_tests.harness.proof.numbers import Model, Number, Operand, Unmodelled

POINTS = 3  # primes, each with a point of its own
_NEAR = 2.0**-16  # far above what rounding makes of a formula, far below another sign or branch
_TRIES = 200  # points at which a root may not exist, of each field


@dataclass(frozen=True)
class Sameness:
    """The difference between two programs, by their results at random points.

    Attributes:
        differs: for each result, where it differs at one of the points.
        read_as: constants that were taken for fractions times roots of 2 and π, and these.
    """

    differs: Sequence[np.ndarray]
    read_as: dict[float, Constant]

    @property
    def proved(self) -> bool:
        """True if no entry differs."""
        return not any(x.any() for x in self.differs)


def sameness(one: core.ClosedJaxpr, other: core.ClosedJaxpr, reals: Sequence[np.ndarray], seed: int = 0) -> Sameness:
    """Compare two programs with the same arguments, whose branches are those of a run at these numbers.

    Two programs of sums, products, quotients and the functions of `numbers`, that are not the same, agree at all points
    with a probability of at most (degree / 2^31)^3, the degree being that of their difference.

    Raises:
        Unmodelled: an operation has no counterpart in a field, or a result is not finite in the run.
    """
    shapes = [[tuple(x.shape) for x in program.out_avals] for program in (one, other)]
    if shapes[0] != shapes[1]:
        raise Unmodelled(f"results of other shapes: {shapes[0]} and {shapes[1]}")
    points = itertools.islice(filter(None, (_at_a_point(one, other, reals, p, seed) for p in PRIMES)), POINTS)
    found = [*points]
    if len(found) < POINTS:
        raise Unmodelled(f"roots or logarithms: at none of {_TRIES} points of a field all of them exist")
    differs = [np.logical_or.reduce([*at_points]) for at_points in zip(*(each.differs for each in found), strict=True)]
    if any(each.far for each in found) and not any(x.any() for x in differs):
        raise Unmodelled("the numbers of the run differ though the residues agree, as of a root with another sign")
    return Sameness(differs, {x: constant for each in found for x, constant in each.read_as.items()})


class _Point(NamedTuple):
    """Where the residues of the results differ at a point, and whether the numbers of the run are far apart."""

    differs: Sequence[np.ndarray]
    far: bool
    read_as: dict[float, Constant]


def _at_a_point(
    one: core.ClosedJaxpr, other: core.ClosedJaxpr, reals: Sequence[np.ndarray], p: int, seed: int
) -> _Point | None:
    for attempt in range(_TRIES):
        # If not all numbers under a logarithm are squares at many points, there may be too many.
        model, rng = Model(p, seed, signed=attempt < _TRIES // 2), np.random.default_rng((p, seed, attempt))
        args: list[Operand] = [model.random(rng, x) if x.dtype.kind == "f" else x for x in reals]
        try:
            with np.errstate(all="ignore"):
                results = [interpret(program, args, Fields(model)) for program in (one, other)]
        except NoInverse:
            continue
        pairs = [*zip(*results, strict=True)]
        return _Point([_difference(*pair) for pair in pairs], any(_are_far(*pair) for pair in pairs), model.read_as)
    return None


def _difference(x: Operand, y: Operand) -> np.ndarray:
    if not isinstance(x, Number) or not isinstance(y, Number):
        return np.asarray(x != y)
    if not (np.isfinite(x.real) & np.isfinite(y.real)).all():
        raise Unmodelled("an infinity or NaN among the results")
    for one, other in zip(x.residues, y.residues, strict=True):
        if one is not None and other is not None:
            return one != other
    raise Unmodelled("a root beside a logarithm")


def _are_far(x: Operand, y: Operand) -> bool:
    if not isinstance(x, Number) or not isinstance(y, Number):
        return False
    a, b = x.real, y.real
    return bool((np.abs(a - b) > _NEAR * max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))).any())
