"""Whether two programs compute the same, at one shape: by their results at random points of several fields."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.proof.constants import Constant
from parity_tests.harness.proof.domain import Fields
from parity_tests.harness.proof.fields import PRIMES, NoInverse
from parity_tests.harness.proof.numbers import Model, Number, Operand, Unmodelled

POINTS = 3  # primes, each with a point of its own
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
    differs: list[np.ndarray] | None = None
    read_as: dict[float, Constant] = {}
    points = itertools.islice(filter(None, (_at_a_point(one, other, reals, p, seed) for p in PRIMES)), POINTS)
    found_at = [*points]
    if len(found_at) < POINTS:
        raise Unmodelled(f"roots or logarithms: at none of {_TRIES} points of a field all of them exist")
    for found, constants in found_at:
        differs = found if differs is None else [x | y for x, y in zip(differs, found, strict=True)]
        read_as |= constants
    assert differs is not None
    return Sameness(differs, read_as)


def _at_a_point(
    one: core.ClosedJaxpr, other: core.ClosedJaxpr, reals: Sequence[np.ndarray], p: int, seed: int
) -> tuple[list[np.ndarray], dict[float, Constant]] | None:
    for attempt in range(_TRIES):
        # If not all numbers under a logarithm are squares at many points, there may be too many.
        model, rng = Model(p, seed, signed=attempt < _TRIES // 2), np.random.default_rng((p, seed, attempt))
        args: list[Operand] = [model.random(rng, x) if x.dtype.kind == "f" else x for x in reals]
        try:
            with np.errstate(all="ignore"):
                results = [interpret(program, args, Fields(model)) for program in (one, other)]
        except NoInverse:
            continue
        return [_difference(*pair) for pair in zip(*results, strict=True)], model.read_as
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
