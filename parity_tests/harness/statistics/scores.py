"""Scores of an error: each is a statistic in units of what right code may reach, so that beyond 1 is evidence.

Let d be the candidate's error, D_1 ... D_M those of M runs of right code, and v the variance of an entry's error, which
is estimated from them. One run rounds to nearest, as the candidate does, so that what this does to many numbers in the
same place, such as those that are nearly 1, is known; the others round at random. There are two kinds of statistics.

**Regions.** The root mean square of d / sqrt(v) over a region: all entries, each row, each column, each tile of 16 by
16, each entry; and the largest singular value of d / sqrt(v), which a pattern of rows and columns raises, such as a
summand that was left out. It may be MARGIN times the largest that a run reaches: other right code may round 16 times
as often as the oracle's program. By chance right code that rounds as often gets there, in a single number, which is the
worst case, with a probability of 1.3e-6 if its error is normal; in arrays never.

**Projections.** Z(d) = Σ d s / v over sqrt(Σ d² s² / v²) for a term s: the result itself, its terms, and 1, which shows
an error of one sign. Z is about normal whatever the size of the errors; where roundings are shared, and errors of many
entries move together, it is larger by a factor that the runs show. It may reach a quantile of Student's t, with M
degrees of freedom, so that in STATISTICS_OF_A_REPORT projections, more than one report makes, right code is reported
with a probability of CHANCE_OF_AN_ALARM. Rounding to nearest can do the same to many numbers, and a constant that is
rounded to the format does it to all: as much of s as so many roundings of a common factor make is taken off first.

**Directions**, of code that is seen to compute in float32. A number that is rounded for a row, for a column, or for a
group of them is a factor of the result there. Of the rest of the error, at right angles to the result in each row, the
sign of Σ d s is a matter of chance; likewise in each column. How many rows, and how many columns, agree is told by the
binomial distribution, without runs.

**Strangers**, of such code as well: most rows have no error but that of float32 inside, and of the others most entries
have one, which is larger than a rounding of a factor of the row, and one of each entry, make: u² and, by chance, u² / 3
for the mean square of an error relative to the largest term, which is 4 u² at most. By Hoeffding's inequality the mean
of m of them exceeds that by 4 √(log(1 / P) / 2 m) u² with the probability P at most. Likewise columns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.numbers.formats import CHANCE_OF_AN_ALARM, Precision

RUNS = 16
MARGIN = 4.0
MARGIN_BESIDE = 2.0  # where what the runs round is known but for the last operations of one result
STATISTICS_OF_A_REPORT = 1e4
SIGN = "1"  # the term of which a multiple is an error of one sign
_TILE = 16
_MOST = 0.75
_FEWEST_LINES = 2
_ROUNDING = 1e-6  # of float64, and far below what one term adds to others
LINES = math.ceil(1 - math.log2(CHANCE_OF_AN_ALARM / STATISTICS_OF_A_REPORT))  # so many signs are no chance


@dataclass(frozen=True)
class Score:
    """How far a statistic is from what right code reaches.

    Attributes:
        statistic: "a projection", "a direction", or the region: "every entry", "a row", "a column", "a tile",
            "an entry", "a pattern".
        value: in units of what right code may reach.
        term: of a projection or a direction: what is in the error.
        factor: how often it is in it.
        share: of the error's square, how much it explains.
        index: of a region: its row, column, first entry or entry, as indices of the result.
    """

    statistic: str
    value: float
    term: str = ""
    factor: float = 0.0
    share: float = 0.0
    index: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of a candidate and of runs of right code, in units of the size that rounding gives to each entry's.

    Attributes:
        candidate: as a matrix, its last axis that of the result; 0 where an error is not finite.
        runs: one such matrix for each run.
        size: the root of the variance of each entry's error.
        shape: of the result.
        half: half the distance of the format's numbers at each entry.
    """

    candidate: np.ndarray
    runs: Sequence[np.ndarray]
    size: np.ndarray
    shape: tuple[int, ...]
    half: np.ndarray

    @classmethod
    def of(
        cls, error: np.ndarray, runs: Sequence[np.ndarray], spacing: np.ndarray, bound: np.ndarray | None = None
    ) -> Errors:
        """The errors of a candidate and of runs.

        `spacing`: the distance of the format's numbers at each entry. `bound`: the largest error that rounding makes.
        By it an entry is not taken to be exact where the oracle's formula cancels by chance, and another does not.
        """
        known = np.isfinite(error) & np.logical_and.reduce([np.isfinite(run) for run in runs])
        candidate, *others = (_matrix(np.where(known, x, 0.0)) for x in (error, *runs))
        if not error.size:
            return cls(candidate, others, candidate, error.shape, candidate)
        variance = np.maximum(np.mean([run**2 for run in others], axis=0), _matrix(spacing) ** 2 / 12)
        # Of few runs an entry's own variance is known badly: half of it comes from its row and its column.
        shared = variance.mean(1, keepdims=True) * variance.mean(0, keepdims=True) / variance.mean()
        size = np.sqrt((variance + shared) / 2)
        if bound is not None:
            size = np.maximum(size, _by_bound(size, _matrix(bound)))
        half = _matrix(spacing) / 2 / size
        return cls(candidate / size, [run / size for run in others], size, error.shape, half)


def _by_bound(size: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Half the size that an entry's error has by its bound, if that is as much of the bound as of most entries."""
    known = np.isfinite(bound) & (bound > 0)
    if not known.any():
        return np.zeros_like(size)
    return np.where(known, 0.5 * float(np.median(size[known] / bound[known])) * np.where(known, bound, 0.0), 0.0)


def _matrix(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(1, -1)


def scores(
    errors: Errors,
    terms: Mapping[str, np.ndarray],
    precision: Precision,
    common_roundings: int,
    margin: float = MARGIN,
) -> list[Score]:
    """All scores of a candidate's error, the largest first.

    Args:
        errors: the candidate's and those of right code.
        terms: what may be in the error, by name: arrays of the result's shape.
        precision: the format.
        common_roundings: how many roundings to the format right code may make in a common factor of the result.
        margin: how often a region's error may be the largest that a run reaches.
    """
    if not errors.candidate.size:
        return []
    found = [*_regions(errors, margin), *_projections(errors, terms, precision, common_roundings)]
    return sorted(found, key=lambda score: -score.value)


def _regions(errors: Errors, margin: float) -> Iterator[Score]:
    # Of a single number the runs may all be nearer than half a unit, which right code need not be.
    single = errors.candidate.size == 1
    own, right = _sizes(errors.candidate), [_sizes(run) for run in errors.runs]
    for name, values in own.items():
        most = max(float(sizes[name].max()) for sizes in right)
        most = max(most, float(errors.half.max())) if single or name == "an entry" else most
        place = np.unravel_index(int(values.argmax()), values.shape)
        value = float(values[place]) / (margin * most) if most else 0.0
        yield Score(name, value, index=_index(name, place, errors))


def _sizes(x: np.ndarray) -> dict[str, np.ndarray]:
    """The statistics of every region of a matrix, by their names."""
    squares = x**2
    gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    found = {"every entry": np.atleast_2d(squares.mean()), "an entry": squares}
    if min(x.shape) > 1:
        found |= {
            "a row": squares.mean(1, keepdims=True),
            "a column": squares.mean(0, keepdims=True),
            "a pattern": np.atleast_2d(max(0.0, float(np.linalg.eigvalsh(gram)[-1]))),
        }
    if max(x.shape) > _TILE:
        found["a tile"] = _tiles(squares)
    return {name: np.sqrt(values) for name, values in found.items()}


def _tiles(x: np.ndarray) -> np.ndarray:
    """The means of the tiles of a matrix; those at its ends may be smaller."""
    edges = [np.arange(0, size, _TILE) for size in x.shape]
    sums = np.add.reduceat(np.add.reduceat(x, edges[0], axis=0), edges[1], axis=1)
    rows, columns = (np.diff([*start, size]) for start, size in zip(edges, x.shape, strict=True))
    return sums / np.outer(rows, columns)


def _index_of_line(name: str, place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Where a row or a column is: of a row all indices but the last, of a column the last."""
    return (place,) if name == "a column" else tuple(int(i) for i in np.unravel_index(place, shape[:-1]))


def _index(name: str, place: Sequence[np.intp], errors: Errors) -> tuple[int, ...] | None:
    """Where a region is, in indices of the result: of a row all but the last, of a column the last."""
    row, column = int(place[0]), int(place[1])
    leading = errors.shape[:-1]
    if name == "a tile":
        row, column = row * _TILE, column * _TILE
    if name in ("a row", "a column"):
        return _index_of_line(name, row if name == "a row" else column, errors.shape)
    if name in ("an entry", "a tile"):
        return (*(int(i) for i in np.unravel_index(row, leading)), column) if errors.shape else ()
    return None


def _projections(
    errors: Errors, terms: Mapping[str, np.ndarray], precision: Precision, common_roundings: int
) -> Iterator[Score]:
    most = _quantile(len(errors.runs))
    for name, term in {**terms, SIGN: np.ones(errors.shape)}.items():
        s = _matrix(np.where(np.isfinite(term), term, 0.0)) / errors.size
        norm = float((s**2).sum())
        if not norm or s.size < 2:
            continue
        allowed = common_roundings * precision.u * norm if name != SIGN else 0.0
        own, right = _self_normalized(errors.candidate, s, allowed), [_self_normalized(x, s) for x in errors.runs]
        spread = max(1.0, float(np.sqrt(np.mean(np.square(right)))))
        factor, square = float((errors.candidate * s).sum()) / norm, float((errors.candidate**2).sum())
        share = factor**2 * norm / square if square else 0.0
        value = own / (most * spread)
        if name == SIGN:
            # A number that is rounded for a row has one sign there, whatever the runs round; no mistake is in one row.
            products = errors.candidate * s
            value = min(value, _agreement([products.sum(1 - axis) for axis in (0, 1) if s.shape[axis] >= LINES]))
        yield Score("a projection", value, term=name, factor=factor, share=share)


def directions(error: np.ndarray, result: np.ndarray, terms: Mapping[str, np.ndarray]) -> Iterator[Score]:
    """Yield how an error agrees with each of these terms in sign, in every row and in every column.

    Args:
        error: of the result's shape, 0 where it is what right code has.
        result: as right code has it.
        terms: what may be in the error, by name: arrays of the result's shape.
    """
    if max(error.shape, default=1) == 1:
        return
    d, y = (_matrix(np.nan_to_num(x, posinf=0.0, neginf=0.0)) for x in (error, result))
    for name, term in {**terms, SIGN: np.ones(error.shape)}.items():
        s = _matrix(np.nan_to_num(term, posinf=0.0, neginf=0.0))
        sums = [(d * _beside(s, y, 1 - axis)).sum(1 - axis) for axis in (0, 1) if s.shape[axis] >= _FEWEST_LINES]
        yield Score("a direction", _agreement(sums), term=name)


def _beside(s: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """Return the part of s that is at right angles to y along an axis; 0 where that is no more than rounding."""
    squares = (y * y).sum(axis, keepdims=True)
    multiple = np.divide((s * y).sum(axis, keepdims=True), squares, out=np.zeros_like(squares), where=squares > 0)
    rest = s - multiple * y
    size, of_rest = (np.sqrt((x * x).sum(axis, keepdims=True)) for x in (s, rest))
    return np.where(of_rest > _ROUNDING * size, rest, 0.0)


def _agreement(sums: Sequence[np.ndarray]) -> float:
    """How far the signs agree of the sums of rows, and of those of columns: the lesser of both."""
    allowed = np.log(CHANCE_OF_AN_ALARM / STATISTICS_OF_A_REPORT)
    return float(min((_chance_of_signs(each) / allowed for each in sums), default=np.inf))


def strangers(
    error: np.ndarray, size: np.ndarray, beyond: np.ndarray, of_runs: Sequence[np.ndarray], precision: Precision
) -> Iterator[Score]:
    """Yield the row, and the column, that is most unlike the others; `beyond`: entries that float32 does not explain.

    Args:
        error: the candidate's.
        size: the number of which a rounding is excused: the largest of the result and its terms, without its sign.
        beyond: a mask of the entries whose error float32 inside does not explain; of_runs: the same of runs of right
            code that rounds everything, which would have such entries in nearly all rows.
        precision: the format.
    """
    masks = [_matrix(x) for x in (beyond, *of_runs)]
    least = precision.smallest / 2 / precision.u  # below it the numbers are as far apart as there
    with np.errstate(invalid="ignore"):
        squares = _matrix(np.nan_to_num(error / np.maximum(size, least), posinf=0.0, neginf=0.0) ** 2)
    for name, axis in (("a row", 1), ("a column", 0)):
        own, *runs = (mask.mean(axis) for mask in masks)
        if 1 in masks[0].shape or (own == 0).mean() < _MOST or any((run == 0).mean() > 1 - _MOST for run in runs):
            continue
        if not own.any() or own[own > 0].min() < 0.5:
            continue
        chance = np.sqrt(np.log(STATISTICS_OF_A_REPORT / CHANCE_OF_AN_ALARM) / (2 * masks[0].shape[axis]))
        allowed = np.sqrt(min(4.0, 4 / 3 + 4 * chance)) * precision.u
        sizes = np.where(own > 0, np.sqrt(squares.mean(axis)), 0.0) / allowed
        place = int(sizes.argmax())
        yield Score(name, float(sizes[place]), index=_index_of_line(name, place, error.shape))


def _chance_of_signs(x: np.ndarray) -> float:
    """The logarithm of the probability that so many of these numbers, or more, have one sign by chance."""
    from scipy import special  # `scipy.stats`, which has this probability by its name, takes half a second to import

    positive, negative = int((x > 0).sum()), int((x < 0).sum())
    most, count = max(positive, negative), positive + negative
    with np.errstate(divide="ignore"):  # 2^-1075 and less is 0
        return min(0.0, float(np.log(special.betainc(most, count - most + 1, 0.5))) + np.log(2)) if count else 0.0


def _self_normalized(x: np.ndarray, s: np.ndarray, allowed: float = 0.0) -> float:
    """|Z|, of what is left if as much of s as is allowed has been taken off."""
    products = x * s
    spread = float(np.sqrt((products**2).sum()))
    return max(0.0, abs(float(products.sum())) - allowed) / spread if spread else 0.0


@functools.cache
def _quantile(runs: int) -> float:
    """How large a projection may be in units of its root mean square over so many runs."""
    from scipy import special  # see `_chance_of_signs`

    return float(-special.stdtrit(runs, CHANCE_OF_AN_ALARM / STATISTICS_OF_A_REPORT / 2))
