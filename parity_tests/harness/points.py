"""Special points: where formulas divide by zero, overflow, tie, or stand on a kink.

A point is made from a generic one, input by input, and stays in the input's domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.precision import FLOAT64, Precision
from parity_tests.harness.trial import Trial

Place = Callable[[np.ndarray, np.random.Generator, Precision], np.ndarray]

_REAL, _SCALED = ("real",), ("real", "positive")
_ELEMENTWISE = ("real", "positive", "unit")
_MATRICES = ("symmetric", "definite", "lower")


@dataclass(frozen=True)
class Point:
    """A kind of special point.

    Attributes:
        name: what reports say of an input that is put there.
        domains: the domains that have it.
        place: (an input at a generic point, generator, format) -> the input at the special one.
        finite: False where the input has an infinity or a NaN.
        alone: also put each input there by itself? For what makes single terms vanish.
    """

    name: str
    domains: tuple[str, ...]
    place: Place
    finite: bool = True
    alone: bool = False


def _some(x: np.ndarray, rng: np.random.Generator, value: float) -> np.ndarray:
    """The first row, and about a third of the other entries, replaced."""
    chosen = rng.random(x.shape) < 1 / 3
    if x.ndim > 1:
        chosen[0] = True
    return np.where(chosen, value, x)


def _one(x: np.ndarray, rng: np.random.Generator, value: float) -> np.ndarray:
    """One entry replaced."""
    y = x.copy()
    y.flat[rng.integers(x.size)] = value
    return y


def _power(exponent: float) -> float:
    return 2.0 ** math.floor(exponent)


POINTS = (
    Point("is 0", (*_REAL, "symmetric"), lambda x, rng, p: np.zeros_like(x), alone=True),
    Point("is -0", _REAL, lambda x, rng, p: -np.zeros_like(x)),
    Point("has zeros", _REAL, lambda x, rng, p: _some(x, rng, 0.0), alone=True),
    Point("is 1", _SCALED, lambda x, rng, p: np.ones_like(x)),
    Point("is -1", _REAL, lambda x, rng, p: -np.ones_like(x)),
    Point("has equal entries", _ELEMENTWISE, lambda x, rng, p: np.full_like(x, x.flat[0]), alone=True),
    Point("has two values", _ELEMENTWISE, lambda x, rng, p: rng.choice(x.flat[:2], x.shape)),
    Point("is positive", _REAL, lambda x, rng, p: np.abs(x)),
    Point("is negative", _REAL, lambda x, rng, p: -np.abs(x)),
    # Where tanh, erf and the logistic function are 1 in every format; the smaller one does not overflow exp in float16.
    Point("is 10 or -10", _REAL, lambda x, rng, p: np.copysign(10.0, x)),
    Point("is 40 or -40", _REAL, lambda x, rng, p: np.copysign(40.0, x)),
    Point("is large", _SCALED, lambda x, rng, p: x * _power(math.log2(p.largest) / 4)),
    Point("is huge", _SCALED, lambda x, rng, p: x * _power(math.log2(p.largest) * 3 / 4)),
    Point("is tiny", _ELEMENTWISE, lambda x, rng, p: x * _power(math.log2(p.tiny) * 3 / 4)),
    Point("is subnormal", _SCALED, lambda x, rng, p: np.copysign(rng.integers(1, 9, x.shape) * p.smallest, x)),
    Point("is nearly 1", ("unit",), lambda x, rng, p: 1 - rng.integers(1, 9, x.shape) * p.u),
    Point("is the identity", _MATRICES, lambda x, rng, p: np.broadcast_to(np.eye(x.shape[-1]), x.shape).copy()),
    Point("has an infinity", _SCALED, lambda x, rng, p: _one(x, rng, np.inf), finite=False),
    Point("has -infinity", _REAL, lambda x, rng, p: _one(x, rng, -np.inf), finite=False),
    Point("has a NaN", _ELEMENTWISE, lambda x, rng, p: _one(x, rng, np.nan), finite=False),
)


def placements(trial: Trial) -> Iterator[tuple[str, bool, list[np.ndarray]]]:
    """Every special point of a trial's operator: what reports say of it, whether it is finite, the inputs there."""
    names, domains = trial.oracle.inputs, [domain.name for domain in trial.sample.domains]
    generic = trial.primals
    points = (*POINTS, *_of_the_operator(trial))
    for point in points:
        eligible = [i for i, domain in enumerate(domains) if domain in point.domains and generic[i].size]
        groups = [eligible] if eligible else []
        if point.alone and len(eligible) > 1:
            groups += [[i] for i in eligible]
        for group in groups:
            rng = np.random.default_rng(trial.sample.seed)
            primals = [point.place(x, rng, trial.precision) if i in group else x for i, x in enumerate(generic)]
            if any(((x != 0) & (np.abs(x) < FLOAT64.tiny)).any() for x in primals):
                continue  # the oracle itself, in XLA, may flush them to zero
            yield _title([names[i] for i in group], point.name), point.finite, _rounded(trial, primals)
    alike = [i for i, domain in enumerate(domains) if domain in _ELEMENTWISE and domain == domains[0]]
    if len(alike) > 1:
        # With a last axis in common whole rows are equal: two points at distance 0.
        primals = [np.resize(generic[0], x.shape) if i in alike else x for i, x in enumerate(generic)]
        yield f"{', '.join(names[i] for i in alike)} are equal", True, primals
    for i, values in enumerate(trial.oracle.spec.kinks.get(name, ()) for name in names):
        rng = np.random.default_rng(trial.sample.seed)
        if values:
            primals = [rng.choice(values, x.shape) if i == j else x for j, x in enumerate(generic)]
            yield f"{names[i]} is at its kinks", True, _rounded(trial, primals)


def _of_the_operator(trial: Trial) -> Sequence[Point]:
    """The numbers that the oracle's program has in it: its thresholds are among them."""
    numbers = trial.oracle.literals(trial.sample.shapes)
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


def _title(names: list[str], point: str) -> str:
    return f"{' and '.join(names)} {point}" if len(names) == 1 else f"each of {', '.join(names)} {point}"


def _rounded(trial: Trial, primals: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [trial.precision.rounded(x) for x in primals]
