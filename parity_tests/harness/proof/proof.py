"""Whether two programs compute the same, at one shape: in a run, and at random points of several fields."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.digest import NoDigest, digest
from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.language.live import live
from parity_tests.harness.primitives.field.constants import Constant
from parity_tests.harness.primitives.field.fields import NoInverse, primes
from parity_tests.harness.primitives.field.numbers import Model, Number, Operand, Unmodelled, is_finite
from parity_tests.harness.proof.domain import Fields
from parity_tests.harness.proof.run import Run, context, differences, ratios

POINTS = 3  # fields, each with a point of its own
_FIELDS = 8  # of which some may not have the roots of the constants
_FACTORS = (2.0**-4, 2.0**4)  # of the arguments of further runs
_OF_FLOAT64 = -40  # the power of two that is above rounded constants' part of a result
_SIGNS = 13  # points more where there are roots
_DIRECTED = 0.75  # of the tries, at places that look like those of the missing roots
_UNKNOWN_RULE = "it agrees to 300 digits at the sample, by a rule that the fields do not know"
_TRIES = 100  # points in a row of which none has more of the roots than those before


@dataclass(frozen=True)
class Sameness:
    """The difference between two programs.

    Attributes:
        differs: for each result, where the numbers of the run differ.
        ratios: for each result, by which fraction the entries that differ are those of the first program, if by one.
        read_as: constants that were taken for fractions times roots, and these.
    """

    differs: Sequence[np.ndarray]
    read_as: dict[float, Constant]
    ratios: Sequence[Fraction | None] = ()

    @property
    def proved(self) -> bool:
        """True if no entry differs, in the run and in the fields."""
        return not any(x.any() for x in self.differs)


def sameness(one: core.ClosedJaxpr, other: core.ClosedJaxpr, args: Sequence[np.ndarray], seed: int = 0) -> Sameness:
    """Compare two programs: the numbers of a run at these arguments, then at random points of fields on its branches.

    Two programs of sums, products, quotients and the functions of `rules` that are not the same agree at all points
    with a probability of at most (degree / 2^29)^3, the degree being that of their difference. A root or logarithm has
    no sign in a field, and has one in the run. Fields and points follow from the programs: none can know them.

    Raises:
        Unmodelled: an operation has no counterpart in a field, a result is not finite in the run, or the numbers of the
            run agree and those of the fields do not.
    """
    shapes = [[tuple(x.shape) for x in program.out_avals] for program in (one, other)]
    if shapes[0] != shapes[1]:
        raise Unmodelled(f"results of other shapes: {shapes[0]} and {shapes[1]}")
    programs = live(one), live(other)
    try:
        key = (*map(digest, programs), *((x.shape, x.tobytes()) for x in map(np.asarray, args)), seed)
    except NoDigest:
        return _compared(programs, args, seed)
    return _remembered(_Question(key, programs, args, seed))


@dataclass(frozen=True)
class _Question:
    """Programs and arguments; equal to those with the same key, as of a candidate in another dtype."""

    key: tuple[Any, ...]
    programs: tuple[core.ClosedJaxpr, ...] = field(compare=False)
    args: Sequence[np.ndarray] = field(compare=False)
    seed: int = field(compare=False)


@functools.lru_cache(maxsize=32)
def _remembered(question: _Question) -> Sameness:
    return _compared(question.programs, question.args, question.seed)


def _compared(programs: Sequence[core.ClosedJaxpr], args: Sequence[np.ndarray], seed: int) -> Sameness:
    """Compare programs that return results of the same shapes."""
    mp = context()
    runs = [Run(mp, program, args) for program in programs]
    if not all(is_finite(y).all() for run in runs for y in run.results if y.dtype == object):
        raise Unmodelled("an infinity or NaN among the results")
    differs, shown_by = _differing(mp, *runs), runs
    for factor in _FACTORS if any(run.has_tails for run in runs) else ():
        if not any(x.any() for x in differs):
            differs, shown_by = _of_other_size(mp, programs, runs, factor) or (differs, shown_by)
    if any(x.any() for x in differs):
        return Sameness(differs, {}, ratios(shown_by[1], shown_by[0], differs))
    rng = np.random.default_rng([*_digest(*programs), seed])
    read_as: dict[float, Constant] = {}
    for model, results in _at_points(programs, runs, rng):
        if any(not _are_the_same(*pair) for pair in zip(*results, strict=True)):
            functions = sorted(model.functions) + ["roots or logarithms"] * any(run.has_roots for run in runs)
            raise Unmodelled(_UNKNOWN_RULE + f", as of {', '.join(functions)}" * bool(functions))
        read_as |= model.read_as
    return Sameness(differs, read_as)


def _at_points(
    programs: Sequence[core.ClosedJaxpr], runs: Sequence[Run], rng: np.random.Generator
) -> Iterator[tuple[Model, list[list[Operand]]]]:
    """Yield the results of programs at a point of each of several fields, and at more points where there are roots.

    At each of these the root of x² may be x or -x, whichever is a square: a wrong sign shows at half of them.

    Raises:
        Unmodelled: there are too few fields with all the roots of the constants, or points with those of the numbers.
    """
    found = list[int]()
    for p in itertools.islice(primes(rng), _FIELDS):
        at_a_point = _at_a_point(programs, runs, p, rng)
        if at_a_point is not None:
            found.append(p)
            yield at_a_point
        if len(found) == POINTS:
            break
    more = itertools.islice(itertools.cycle(found), _SIGNS) if any(run.has_roots for run in runs) else ()
    further = [_at_a_point(programs, runs, p, rng) for p in more] if len(found) == POINTS else [None]
    if None in further:
        raise Unmodelled("roots or logarithms: at no point that was tried all of them exist")
    yield from filter(None, further)


def _differing(mp: Any, one: Run, other: Run) -> list[np.ndarray]:
    """Where the results of two runs differ.

    Raises:
        Unmodelled: constants that were computed in float64 may be the difference.
    """
    differs, rounded = differences(mp, one, other), one.rounded ^ other.rounded
    off = any(x.any() for x in differs)
    if off and rounded and not any(x.any() for x in differences(mp, one, other, _OF_FLOAT64)):
        raise Unmodelled(
            "it differs by no more than rounding does, and constants may be rounded: "
            f"{min(rounded)!r} is in one of the programs only"
        )
    return differs


def _of_other_size(
    mp: Any, programs: Sequence[core.ClosedJaxpr], runs: Sequence[Run], factor: float
) -> tuple[list[np.ndarray], Sequence[Run]] | None:
    """Where the results differ at arguments of another size, and the runs; None if a program branches otherwise there.

    A term that vanishes beside all others at the arguments need not vanish there.
    """
    args = [x.astype(float) * factor if x.dtype == object else x for x in runs[0].args]
    try:
        others = [Run(mp, program, args) for program in programs]
    except Unmodelled:
        return None
    same = all(one.branches_as(other) for one, other in zip(runs, others, strict=True))
    finite = all(is_finite(y).all() for run in others for y in run.results if y.dtype == object)
    return (_differing(mp, *others), others) if same and finite else None


def _digest(*programs: core.ClosedJaxpr) -> Iterator[int]:
    """Numbers that follow from the programs with their constants."""
    digest = hashlib.sha256()
    for program in programs:
        digest.update(str(program.jaxpr).encode())
        for x in program.consts:
            digest.update(np.asarray(x).tobytes())
    return iter(digest.digest())


def _at_a_point(
    programs: Sequence[core.ClosedJaxpr], runs: Sequence[Run], p: int, rng: np.random.Generator
) -> tuple[Model, list[list[Operand]]] | None:
    """The results of programs at the first point at which all roots exist; None if there is none.

    Each point has some numbers of the one with the most roots so far: of random points hardly any has twenty.
    """
    for signed in (True, False):  # if not all numbers under logarithms are squares, there may be too many
        model = Model(p, rng, signed)
        args: list[Operand] = [model.random(rng, x) if x.dtype == object else x for x in runs[0].args]
        halvings = 2 + sum(x.real.size for x in args if isinstance(x, Number)).bit_length()
        reached, since, missing = (-1, 0), 0, np.array(False)
        while since < _TRIES:
            directed = rng.random() < _DIRECTED
            share = 2.0 ** -rng.integers(0, 3 if directed else halvings)
            where = missing if directed else np.array(False)
            point = [_as_symmetric(model.changed(rng, x, share, where)) if isinstance(x, Number) else x for x in args]
            fields = [Fields(model, run) for run in runs]
            try:
                with np.errstate(all="ignore"):
                    return model, [interpret(program, point, f) for program, f in zip(programs, fields, strict=True)]
            except NoInverse as error:
                so_far, since = (sum(f.count for f in fields), -int(error.missing.sum())), since + 1
                if so_far >= reached:
                    since = since if so_far == reached else 0
                    reached, args, missing = so_far, point, error.missing
    return None


def _as_symmetric(x: Number) -> Number:
    """The numbers, mirrored where the run has symmetric matrices, on which alone the formulas need to agree."""
    across = np.swapaxes(x.real, -1, -2) if x.real.ndim > 1 else x.real
    if x.real.ndim < 2 or across.shape != x.real.shape or x.real.shape[-1] < 2 or (across != x.real).any():
        return x
    below = np.tri(x.real.shape[-1], dtype=bool)
    return Number(x.each(lambda r: np.where(below, r, np.swapaxes(r, -1, -2))), x.real)


def _are_the_same(x: Operand, y: Operand) -> bool:
    if not isinstance(x, Number) or not isinstance(y, Number):
        return True  # of integers, which the run has
    (p, q), (other_p, other_q) = x.residues, y.residues
    same = p == other_p
    return bool(np.all(same if q is None or other_q is None else same | (q == other_q)))
