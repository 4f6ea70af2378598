"""How many roundings of a long sum add up, where some of its terms may be equal.

The square root in γ_K = min(K, λ √K) u is that of K independent roundings. Those of equal terms are not: while a
running total stays between two powers of two, it is a multiple of one spacing, and what the rounding of total + t loses
is the same for the same t. Sums of n equal terms lose n times as much as one. With n_v terms of each value v, of which
different values have independent errors,

    γ = min(K, λ √(Σ n_v²)) u,

which is λ √K u where all terms differ, and K u where all are equal. A term is as good as equal to another if the two
differ by far less than the spacing of the total, 2 u M at most, M = Σ |t|: values are counted in bins of M u / 4. That
holds also for the many terms that are lost altogether beside a large one, all of which are in the bins around 0. A
term of exactly 0 does not round.

Terms that are spread over few spacings have roundings whose mean is not quite 0, even if no two are equal: over d of
them, 1 / d of a rounding. K terms of the mean magnitude M / K are spread over d = 1 / (2 u K), which makes 2 u K² more
roundings; beside a larger term c, with which the spacing is 2 u (|c| + M), correspondingly more.

Σ n_v² is the number of pairs of equal terms, each with itself included. Of a product of matrices the pairs are not
counted: two products are taken to be equal where both of their factors are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from parity_tests.harness.numbers.formats import FLOAT64, LAMBDA, Precision
from parity_tests.harness.primitives.bound.base import every

BINS = 4  # to one u M


def equal_pairs(x: np.ndarray, axes: Sequence[int], u: float) -> np.ndarray:
    """How many pairs of terms along the axes are as good as equal; the axes are left with size 1."""
    axes = tuple(axis % x.ndim for axis in axes)
    if np.iscomplexobj(x):  # its parts are added up by themselves
        return np.maximum(equal_pairs(np.real(x), axes, u), equal_pairs(np.imag(x), axes, u))
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    terms = math.prod(x.shape[axis] for axis in axes)
    if terms <= LAMBDA**2 or not x.size:  # K roundings are the smaller bound whatever the terms
        return np.full(shape, float(terms))
    rows = np.transpose(x, [*rest, *axes]).reshape(-1, terms)
    with np.errstate(all="ignore"):
        bins = np.rint(rows / (u * np.abs(rows).sum(-1, keepdims=True) / BINS))
    bins = np.sort(np.where(rows == 0, np.nan, bins), axis=-1)
    # A zero, or what is not finite, is equal to nothing.
    first = np.concatenate([np.ones((len(bins), 1), bool), bins[:, 1:] != bins[:, :-1]], axis=-1)
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, first.size)).astype(float)
    return np.bincount(starts // terms, lengths**2, len(bins)).reshape(shape)


def pairs_along(x: np.ndarray, axes: Sequence[int], u: float) -> np.ndarray | float:
    """The same without these axes; a number where their terms are so few that K roundings are the smaller bound."""
    terms = math.prod([x.shape[axis] for axis in axes])
    if terms <= LAMBDA**2:
        return float(terms)
    return equal_pairs(x, axes, u).squeeze(tuple(axes))


def most_equal(x: np.ndarray, u: float) -> int:
    """How many numbers of an array are as good as equal at most, by themselves."""
    numbers = np.ravel(real_rows(x, -1) if x.ndim else x)
    numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
    if not numbers.size:
        return 1
    _, counts = np.unique(np.rint(numbers / (u * np.abs(numbers).max() / BINS)), return_counts=True)
    return int(counts.max())


def real_rows(x: np.ndarray, axis: int) -> np.ndarray:
    """Complex terms along an axis as twice as many real ones."""
    return np.concatenate([np.real(x), np.imag(x)], axis) if np.iscomplexobj(x) else x


def pairs_of_contraction(
    x: np.ndarray, y: np.ndarray, dimension_numbers: Sequence[Sequence[Sequence[int]]], precision: Precision
) -> np.ndarray | float:
    """The pairs of equal terms in the sums of lax.dot_general: for each sum, or for all."""
    contracted, batched = dimension_numbers
    terms = math.prod([x.shape[axis] for axis in contracted[0]]) * (2 if x.dtype.kind == "c" else 1)
    least = float(terms)
    if terms <= LAMBDA**2:
        return least
    sides = zip((x, y), contracted, batched, strict=True)
    rows = [_rows(a, tuple(along), tuple(batch)) for a, along, batch in sides]
    counted: list[np.ndarray] = []
    for a in sorted(rows, key=np.size):
        counted.append(equal_pairs(a, (-1,), precision.u_acc)[..., 0])
        if (counted[-1] <= terms).all():
            return least
    first, second = counted if rows[0].size <= rows[1].size else counted[::-1]
    shared = len(batched[0])
    first = first.reshape(*first.shape, *(1,) * (second.ndim - shared))
    second = second.reshape(*second.shape[:shared], *(1,) * (first.ndim - second.ndim), *second.shape[shared:])
    return np.maximum(np.minimum(first, second), least)


def _rows(x: np.ndarray, along: tuple[int, ...], batch: tuple[int, ...]) -> np.ndarray:
    """An operand of a contraction with the axes (batch..., others..., terms)."""
    others = [axis for axis in range(x.ndim) if axis not in along and axis not in batch]
    moved = np.transpose(x, [*batch, *others, *along])
    terms = math.prod(x.shape[axis] for axis in along)
    return real_rows(moved.reshape(*moved.shape[: len(batch) + len(others)], terms), -1)


def pairs_of_convolution(
    x: np.ndarray, w: np.ndarray, output: tuple[int, int], precision: Precision
) -> np.ndarray | float:
    """The pairs of equal terms in the sums of a convolution.

    The weights have their outputs along the axis `output[0]`, the result has them along `output[1]`.
    """
    along = tuple(axis for axis in range(w.ndim) if axis != output[0])
    terms = float(math.prod(w.shape[axis] for axis in along))
    if terms <= LAMBDA**2:
        return terms
    of_weights = equal_pairs(w, along, precision.u_acc)
    if (of_weights <= terms).all():
        return terms
    of_inputs = terms * min(terms, most_equal(x, precision.u_acc))
    shape = [1] * w.ndim
    shape[output[1]] = -1
    return np.maximum(np.minimum(of_weights.reshape(shape), of_inputs), terms)


def in_place(terms: np.ndarray | int, values: np.ndarray, u: float) -> np.ndarray:
    """γ of sums of so many of the values, added up in a format of unit roundoff u."""
    pairs = terms * np.minimum(terms, most_equal(values, u))
    return np.minimum(terms, LAMBDA * np.sqrt(pairs) + 2 * u * np.square(terms)) * u


def unless_part_overflows(
    bound: np.ndarray, magnitude: np.ndarray, y: np.ndarray, p: Precision, of_terms: np.ndarray | float | None = None
) -> np.ndarray:
    """The bound of a sum y; infinite where one of its partial sums, in whatever order, may overflow the format.

    The largest are those of all positive terms and of all negative ones: Σ t⁺ and Σ t⁻, (M + |y|) / 2 the larger one.
    A right version may store it, if it adds up in several stages. Where the smaller one, (M - |y|) / 2, fits, what
    overflows does so to the sign of y, and stays there: then the bound is one by which y may overflow itself, see
    `rounding.overflow`. `of_terms`: the errors of the terms, by default all of the bound.
    """
    size = np.abs(y)
    fits = (magnitude + size) / 2 + bound <= p.largest
    if every(fits):
        return bound
    overflows = np.isfinite(y) & ~fits
    other_sign = (magnitude - size) + (bound if of_terms is None else of_terms)
    to_its_own_sign = other_sign <= p.largest if y.dtype.kind == "f" else False
    beyond = np.maximum(bound, p.largest - size + 2 * FLOAT64.u * p.largest)
    return np.where(overflows, np.where(to_its_own_sign, beyond, np.inf), bound)
