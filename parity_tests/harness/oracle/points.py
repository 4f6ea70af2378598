"""Special points: where formulas divide by zero, overflow, tie, or stand on a kink.

A point is made from a generic one, input by input, and stays in the input's domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness.language import jaxprs
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.point_table import ANY_SCALE, POINTS, Point
from parity_tests.harness.oracle.thresholds import beyond
from parity_tests.harness.specs.domains import Domain, as_constant
from parity_tests.harness.specs.samples import Sample


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


def placements(oracle: Oracle, sample: Sample, precision: Precision) -> Iterator[Placement]:
    """Yield every special point of an operator in a format, made from a sample."""
    names = oracle.inputs
    generic = [as_constant(precision.rounded(x)) for x in sample.primals(names)]  # the same in every format

    signed = [_with_both_signs(x, domain) for x, domain in zip(generic, sample.domains, strict=True)]

    def placed(name: str, inputs: Sequence[int], place: Callable[[np.ndarray], np.ndarray]) -> Placement:
        primals = [place(signed[i]) if i in inputs else x for i, x in enumerate(generic)]
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
        eligible = [i for i, domain in enumerate(sample.domains) if point.is_in(domain) and generic[i].size]
        groups = [eligible] if eligible else []
        if point.alone and len(eligible) > 1:
            groups += [[i] for i in eligible]
        for group in groups:
            rng = np.random.default_rng(sample.seed)
            placement = placed(point.name, group, lambda x, rng=rng, p=point: p.place(x, rng, precision))
            if not placement.may_be_flushed(FLOAT64):  # by the oracle itself
                yield replace(placement, unlimited=point.unlimited)
    scaled = [i for i, domain in enumerate(sample.domains) if ANY_SCALE.is_in(domain) and generic[i].size]
    for group, factor in beyond(oracle, sample.primals(names), scaled):
        name = f"times {factor:.3g}, beyond a threshold of the program"
        yield placed(name, group, lambda x, factor=factor: x * factor)
    for alike in _alike(sample.domains, generic):
        x = generic[alike[0]]
        if len(alike) > 1:
            # With a last axis in common whole rows are equal: two points at distance 0.
            yield placed("is the same", alike, lambda y, x=x: np.resize(x, y.shape))
        if len(alike) > 1 and sample.domains[alike[0]].name == "probabilities" and x.shape[-1] > 2:
            # Where all are equal, a gradient that is wrong by one number is right: probabilities cannot all grow.
            swapped = x[..., [1, 0, *range(2, x.shape[-1])]]
            name = f"is {names[alike[0]]} with two entries swapped"
            yield placed(name, alike[1:], lambda y, swapped=swapped: swapped)
        for name, constant in _constants_like(oracle, sample, sample.domains[alike[0]]):
            equal = [i for i in alike if generic[i].shape == constant.shape]
            if equal and constant.size:
                yield placed(f"is equal to {name}", equal, lambda y, c=constant: c)
    for i, name in enumerate(names):
        if values := oracle.spec.kinks.get(name):
            rng = np.random.default_rng(sample.seed)
            yield placed("is at its kinks", [i], lambda x, rng=rng, v=values: rng.choice(v, x.shape))


def _with_both_signs(x: np.ndarray, domain: Domain) -> np.ndarray:
    """Return x, every second number negated if all have one sign by chance: "is huge" is about both ends."""
    if x.size < 2 or domain.name not in ("real", "extended", "nonzero") or not ((x > 0).all() or (x < 0).all()):
        return x
    y = x.copy()
    y.flat[1::2] *= -1
    return y


def _alike(domains: Sequence[Domain], generic: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """The inputs, each with those that may be the same array: of one domain, and of one shape unless entries count.

    Where a domain is one of single entries, arrays of different shapes have the same entries.
    """
    remaining = [i for i, x in enumerate(generic) if x.size]
    while remaining:
        first = remaining[0]
        domain, shape = domains[first], generic[first].shape
        alike = [i for i in remaining if domains[i] == domain and (domain.elementwise or generic[i].shape == shape)]
        yield alike
        remaining = [i for i in remaining if i not in alike]


def _constants_like(oracle: Oracle, sample: Sample, domain: Domain) -> Iterator[tuple[str, np.ndarray]]:
    """The inputs of this domain that are not differentiated, such as a target, by their names."""
    spec = oracle.spec
    names, every = spec.names, spec.drawn_from
    for i, x in sorted(sample.constants.items()):
        if x is not None and every[i].name == f"constant {domain.name}":
            yield names[i], x


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
