"""The kinds of special points: which domains have each, and how an array at a generic point is moved there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.specs.domains import DOMAINS, EXTENDED, Domain

Place = Callable[[np.ndarray, np.random.Generator, Precision], np.ndarray]

_REAL, _SCALED = ("real",), ("real", "positive", "nonzero")
_ELEMENTWISE = ("real", "positive", "nonzero", "unit")
_SQUARE = ("symmetric", "definite", "lower", "well-conditioned")


@dataclass(frozen=True)
class Point:
    """A kind of special point.

    Attributes:
        name: what reports say of an input that is put there.
        domains: the names of the domains that have it.
        place: (an input at a generic point, generator, format) -> the input at the special one.
        wide: only in formats of a wide range, float32 and float64? In the others squares of such numbers are lost.
        alone: also put each input there by itself? For what makes single terms vanish.
        unlimited: do squares leave the format's range there? See `unlimited`. Only of operators with one quotient,
            and not in float64, whose range the oracle itself would need.
        rearranged: are all entries there among those of the generic point? Then each domain whose entries may be chosen
            one by one has it, those that an author has defined too.
    """

    name: str
    domains: tuple[str, ...]
    place: Place
    wide: bool = False
    alone: bool = False
    unlimited: bool = False
    rearranged: bool = False

    def is_in(self, domain: Domain) -> bool:
        """Return whether the domain has this point."""
        name = "real" if domain is EXTENDED else domain.name
        own = domain.elementwise and DOMAINS.get(domain.name) != domain.unscaled
        return self.rearranged if own else name in self.domains


def _some(x: np.ndarray, rng: np.random.Generator, value: float) -> np.ndarray:
    """Return x with the first row, and about a third of the other entries, replaced."""
    chosen = rng.random(x.shape) < 1 / 3
    if x.ndim > 1:
        chosen[0] = True
    return np.where(chosen, value, x)


def _one(x: np.ndarray, rng: np.random.Generator, value: float) -> np.ndarray:
    """Return x with one entry replaced."""
    y = x.copy()
    y.flat[rng.integers(x.size)] = value
    return y


def _huge(precision: Precision) -> float:
    """Return a power of two whose fourth power does not overflow; in float64 the oracle itself needs more room."""
    return 2.0 ** (math.log2(min(precision.largest, 2.0**512)) // 4)


def _tiny(precision: Precision) -> float:
    """Return a power of two whose fourth power does not underflow."""
    return 2.0 ** -(-math.log2(max(precision.tiny, 2.0**-512)) // 4)


def _beyond(precision: Precision) -> float:
    """Return a power of two whose square overflows."""
    return 2.0 ** (math.log2(precision.largest) // 2 + 1)


def _below(precision: Precision) -> float:
    """Return a power of two whose square, even times four, underflows, and whose reciprocal does not overflow."""
    return 2.0 ** (math.log2(precision.smallest) // 2 - 2)


def _far(x: np.ndarray, scale: float) -> np.ndarray:
    """Return numbers beyond the scale, with the signs of x."""
    return np.copysign(1 + np.abs(x), x) * scale


def _with_outlier(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return x with one entry that is far larger than the others, as activations have."""
    y = x.copy()
    y.flat[rng.integers(x.size)] *= 2.0**10
    return y


def _sorted(x: np.ndarray) -> np.ndarray:
    """Return x in ascending order along its last axis; a scalar as it is."""
    return np.sort(x, axis=-1) if x.ndim else x


def _with_correlated_rows(x: np.ndarray) -> np.ndarray:
    """Return x with rows that are nearly the same, as neighbouring tokens are; of a vector, its entries."""
    return x[:1] + (x - x[:1]) / 8 if x.ndim else x


def _decaying(x: np.ndarray) -> np.ndarray:
    """Return numbers that fall along the last axis as 1 / sqrt(1 + place), a spectrum with a long tail; signs of x."""
    return np.copysign((1 + np.abs(x) / 8) / np.sqrt(1 + np.arange(x.shape[-1])), x) if x.ndim else x


def _constant_rows(x: np.ndarray) -> np.ndarray:
    """Return x with the first number of each row in the whole row."""
    return np.broadcast_to(x[..., :1], x.shape).copy()


def _in_pairs(x: np.ndarray) -> np.ndarray:
    """Return x with rows in which every second number is its left neighbour: in order if x is."""
    return x[..., np.arange(x.shape[-1]) // 2 * 2]


def _with_a_zero(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return x with one entry 0, if none is."""
    return x if (x == 0).any() else _one(x, rng, 0.0)


def _nearly_one_hot(x: np.ndarray, rng: np.random.Generator, precision: Precision) -> np.ndarray:
    """Return rows of positive numbers with the sum 1, of which all but one are a unit roundoff or two.

    The large one is exact in the format, as the small ones are powers of two.
    """
    others = x.shape[-1] - 1
    small = min(2 * precision.u, 2.0 ** -(2 + math.ceil(math.log2(max(others, 1)))))
    places = rng.integers(x.shape[-1], size=(*x.shape[:-1], 1))
    return np.where(np.arange(x.shape[-1]) == places, 1 - others * small, small)


def _diagonal(x: np.ndarray) -> np.ndarray:
    """Return diagonal matrices with different numbers from 1 to 2 on the diagonal."""
    n = x.shape[-1]
    return _matrices(x, np.diag(1 + np.arange(n) / n))


def _matrices(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return an array of the shape of x, whose matrices all are the given one."""
    return np.broadcast_to(matrix, x.shape).copy()


POINTS = (
    Point("is 0", (*_REAL, "symmetric", "sorted", "complex"), lambda x, rng, p: np.zeros_like(x), alone=True),
    Point("is -0", _REAL, lambda x, rng, p: -np.zeros_like(x)),
    Point("has zeros", _REAL, lambda x, rng, p: _some(x, rng, 0.0), alone=True),
    Point("is 1", (*_SCALED, "complex"), lambda x, rng, p: np.ones_like(x)),
    Point("is -1", ("real", "nonzero"), lambda x, rng, p: -np.ones_like(x)),
    Point(
        "has equal entries",
        (*_ELEMENTWISE, "complex"),
        lambda x, rng, p: np.full_like(x, x.flat[0]),
        alone=True,
        rearranged=True,
    ),
    Point("has two values", _ELEMENTWISE, lambda x, rng, p: rng.choice(x.flat[:2], x.shape), rearranged=True),
    Point("is positive", _REAL, lambda x, rng, p: np.abs(x)),
    Point("is negative", _REAL, lambda x, rng, p: -np.abs(x)),
    # Where tanh, erf and the logistic function are 1 in every format; the smaller one does not overflow exp in float16.
    Point("is 10 or -10", _REAL, lambda x, rng, p: np.copysign(10.0, x)),
    Point("is 40 or -40", _REAL, lambda x, rng, p: np.copysign(40.0, x), wide=True),
    Point("is large", _SCALED, lambda x, rng, p: _far(x, min(2.0**10, math.sqrt(_huge(p))))),
    Point("is huge", _SCALED, lambda x, rng, p: _far(x, _huge(p))),
    Point("is tiny", _ELEMENTWISE, lambda x, rng, p: x * _tiny(p), wide=True),
    Point(
        "is subnormal", _SCALED, lambda x, rng, p: np.copysign(rng.integers(1, 9, x.shape) * p.smallest, x), wide=True
    ),
    Point("has squares that overflow", _SCALED, lambda x, rng, p: _far(x, _beyond(p)), unlimited=True),
    Point("has squares that underflow", _SCALED, lambda x, rng, p: _far(x, _below(p)), unlimited=True),
    Point("has an outlier", _SCALED, lambda x, rng, p: _with_outlier(x, rng), wide=True, alone=True),
    Point("has correlated rows", ("real", "positive", "unit"), lambda x, rng, p: _with_correlated_rows(x)),
    Point("decays slowly", _SCALED, lambda x, rng, p: _decaying(x)),
    Point("is sorted", (*_ELEMENTWISE, "distinct"), lambda x, rng, p: _sorted(x), rearranged=True),
    Point("is in descending order", ("distinct",), lambda x, rng, p: -_sorted(-x)),
    Point("has a zero", ("distinct",), lambda x, rng, p: _with_a_zero(x, rng)),
    Point("has constant rows", ("sorted",), lambda x, rng, p: _constant_rows(x)),
    Point("has equal neighbours", ("sorted",), lambda x, rng, p: _in_pairs(x)),
    Point("is 1/2", ("unit",), lambda x, rng, p: np.full_like(x, 0.5)),
    Point("is nearly 1", ("unit",), lambda x, rng, p: 1 - rng.integers(1, 9, x.shape) * p.u),
    Point("is uniform", ("probabilities",), lambda x, rng, p: np.full_like(x, 1 / x.shape[-1]), alone=True),
    Point("is nearly one-hot", ("probabilities",), _nearly_one_hot, alone=True),
    # Equal eigenvalues and singular values; those of a matrix that is not 1 times the identity have a logarithm.
    Point("is the identity", (*_SQUARE, "orthogonal"), lambda x, rng, p: _matrices(x, np.eye(*x.shape[-2:]))),
    Point("is twice the identity", _SQUARE, lambda x, rng, p: _matrices(x, 2 * np.eye(x.shape[-1]))),
    Point("is diagonal", _SQUARE, lambda x, rng, p: _diagonal(x)),
    # Pivots that are 0, eigenvalues 1 and -1.
    Point(
        "is a permutation",
        ("symmetric", "well-conditioned", "orthogonal"),
        lambda x, rng, p: _matrices(x, np.eye(*x.shape[-2:])[::-1]),
    ),
    Point("is real", ("complex",), lambda x, rng, p: np.real(x) + 0j),
    Point("is imaginary", ("complex",), lambda x, rng, p: 1j * np.imag(x)),
    Point("has an infinity", _SCALED, lambda x, rng, p: _one(x, rng, np.inf)),
    Point("has -infinity", _REAL, lambda x, rng, p: _one(x, rng, -np.inf)),
    Point("has a NaN", _ELEMENTWISE, lambda x, rng, p: _one(x, rng, np.nan)),
)
ANY_SCALE = Point("is multiplied", _SCALED, lambda x, rng, p: x)  # by how much, the operator says; see `thresholds`
