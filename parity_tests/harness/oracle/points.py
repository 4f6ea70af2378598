"""Special points: where formulas divide by zero, overflow, tie, or stand on a kink.

A point is made from a generic one, input by input, and stays in the input's domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness import jaxprs
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.domains import EXTENDED, as_constant
from parity_tests.harness.specs.samples import Sample

Place = Callable[[np.ndarray, np.random.Generator, Precision], np.ndarray]

_REAL, _SCALED = ("real",), ("real", "positive", "nonzero")
_ELEMENTWISE = ("real", "positive", "nonzero", "unit")
_MATRICES = ("symmetric", "definite", "lower")


@dataclass(frozen=True)
class Point:
    """A kind of special point.

    Attributes:
        name: what reports say of an input that is put there.
        domains: the domains that have it.
        place: (an input at a generic point, generator, format) -> the input at the special one.
        wide: only in formats of a wide range, float32 and float64? In the others squares of such numbers are lost.
        alone: also put each input there by itself? For what makes single terms vanish.
        unlimited: do squares leave the format's range there? See `unlimited`. Only of operators with one quotient,
            and not in float64, whose range the oracle itself would need.
    """

    name: str
    domains: tuple[str, ...]
    place: Place
    wide: bool = False
    alone: bool = False
    unlimited: bool = False


@dataclass(frozen=True)
class Placement:
    """A special point of an operator: what reports say of it, its kind (`Point.name`), and the inputs there."""

    name: str
    kind: str
    primals: list[np.ndarray]
    unlimited: bool = False

    @property
    def finite(self) -> bool:
        """True if every input is finite."""
        return all(np.isfinite(x).all() for x in self.primals)

    @property
    def has_nan(self) -> bool:
        """True if an input has a NaN."""
        return any(np.isnan(x).any() for x in self.primals)

    def may_be_flushed(self, precision: Precision) -> bool:
        """Return whether an input has numbers so small that hardware may flush them to zero."""
        return any(((x != 0) & (np.abs(x) < precision.tiny)).any() for x in self.primals)

    @property
    def flushed(self) -> list[np.ndarray]:
        """The inputs as zeros, as if hardware had flushed all of them."""
        return [np.zeros_like(x) for x in self.primals]


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


POINTS = (
    Point("is 0", (*_REAL, "symmetric"), lambda x, rng, p: np.zeros_like(x), alone=True),
    Point("is -0", _REAL, lambda x, rng, p: -np.zeros_like(x)),
    Point("has zeros", _REAL, lambda x, rng, p: _some(x, rng, 0.0), alone=True),
    Point("is 1", _SCALED, lambda x, rng, p: np.ones_like(x)),
    Point("is -1", ("real", "nonzero"), lambda x, rng, p: -np.ones_like(x)),
    Point("has equal entries", _ELEMENTWISE, lambda x, rng, p: np.full_like(x, x.flat[0]), alone=True),
    Point("has two values", _ELEMENTWISE, lambda x, rng, p: rng.choice(x.flat[:2], x.shape)),
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
    Point("is sorted", _ELEMENTWISE, lambda x, rng, p: _sorted(x)),
    Point("is nearly 1", ("unit",), lambda x, rng, p: 1 - rng.integers(1, 9, x.shape) * p.u),
    Point("is the identity", _MATRICES, lambda x, rng, p: np.broadcast_to(np.eye(x.shape[-1]), x.shape).copy()),
    Point("has an infinity", _SCALED, lambda x, rng, p: _one(x, rng, np.inf)),
    Point("has -infinity", _REAL, lambda x, rng, p: _one(x, rng, -np.inf)),
    Point("has a NaN", _ELEMENTWISE, lambda x, rng, p: _one(x, rng, np.nan)),
)


def placements(oracle: Oracle, sample: Sample, precision: Precision) -> Iterator[Placement]:
    """Yield every special point of an operator in a format, made from a sample."""
    names = oracle.inputs
    domains = ["real" if domain is EXTENDED else domain.name for domain in sample.domains]
    generic = [as_constant(precision.rounded(x)) for x in sample.primals(names)]  # the same in every format

    def placed(name: str, inputs: Sequence[int], place: Callable[[np.ndarray], np.ndarray]) -> Placement:
        primals = [place(x) if i in inputs else x for i, x in enumerate(generic)]
        each = names[inputs[0]] if len(inputs) == 1 else f"each of {', '.join(names[i] for i in inputs)}"
        return Placement(f"{each} {name}", name, [precision.rounded(x) for x in primals])

    in_float64 = precision.largest > math.sqrt(FLOAT64.largest)
    # Of quotients of quotients a cotangent on the way may leave the range, whatever each rule does.
    is_quotient = jaxprs.divisions(oracle.program(sample.shapes)) == 1
    for point in (*POINTS, *_of_the_operator(oracle, sample)):
        if point.unlimited and (in_float64 or not is_quotient):
            continue
        if point.wide and precision.u != precision.u_acc:
            continue
        eligible = [i for i, domain in enumerate(domains) if domain in point.domains and generic[i].size]
        groups = [eligible] if eligible else []
        if point.alone and len(eligible) > 1:
            groups += [[i] for i in eligible]
        for group in groups:
            rng = np.random.default_rng(sample.seed)
            placement = placed(point.name, group, lambda x, rng=rng, p=point: p.place(x, rng, precision))
            if not placement.may_be_flushed(FLOAT64):  # by the oracle itself
                yield replace(placement, unlimited=point.unlimited)
    alike = [i for i, domain in enumerate(domains) if domain in _ELEMENTWISE and domain == domains[0]]
    if len(alike) > 1:
        # With a last axis in common whole rows are equal: two points at distance 0.
        yield placed("is the same", alike, lambda x: np.resize(generic[0], x.shape))
    for i, name in enumerate(names):
        if values := oracle.spec.kinks.get(name):
            rng = np.random.default_rng(sample.seed)
            yield placed("is at its kinks", [i], lambda x, rng=rng, v=values: rng.choice(v, x.shape))


def _of_the_operator(oracle: Oracle, sample: Sample) -> Sequence[Point]:
    """Return points at the numbers in the oracle's program, since its thresholds are among them."""
    numbers = _literals(oracle, sample.shapes)
    if not numbers:
        return ()
    listed = ", ".join(f"{x:g}" for x in numbers)
    positive, unit = [x for x in numbers if x > 0], [x for x in numbers if 0 < x < 1]
    by_domain = (("real", numbers), ("positive", positive), ("unit", unit))
    return [
        Point(
            f"has the program's own numbers ({listed})", (domain,), lambda x, rng, p, v=values: rng.choice(v, x.shape)
        )
        for domain, values in by_domain
        if values
    ]


def _literals(oracle: Oracle, input_shapes: tuple[tuple[int, ...], ...]) -> tuple[float, ...]:
    """The real numbers in the programs of primal and surrogate, but for 0 and 1; at most 8 of them."""
    found, shapes = jaxprs.literals(oracle.program(input_shapes)), oracle.shapes(input_shapes)
    if oracle.spec.surrogate is not None:  # whose thresholds are its own
        zeros = [np.zeros(shapes[slot.like], oracle.dtypes[slot.like]) for slot in oracle.map("vjp").arguments]
        found |= jaxprs.literals(oracle.traced("vjp", zeros, by_autodiff=False).closed.jaxpr)
    return tuple(sorted(found - {0.0, 1.0, -1.0})[:8])
