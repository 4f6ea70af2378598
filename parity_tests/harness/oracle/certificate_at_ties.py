"""The oracle at special points, where its derivative may contradict the slopes of its own values.

A JAX rule may be right at generic points and wrong where two numbers are equal, or one is 0:
`jax.hessian(jnp.hypot)(1.0, 1.0)` is 0. Autodiff cannot find this, since it follows the same rule. The slopes of the
values of the map that is differentiated can. Kinks, where an operator has no derivative and the oracle's is a choice,
are not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jax.extend import core

from parity_tests.harness.language.jaxprs import primitives, source, subprograms
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.complex_parts import products
from parity_tests.harness.numbers.fingerprint import fingerprint
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.oracle.points import placements
from parity_tests.harness.oracle.taylor import taylor_test
from parity_tests.harness.specs.domains import as_constant
from parity_tests.harness.specs.samples import Sample

_KINDS = ("is 0", "has zeros", "is 1", "has equal entries", "is the same")
_FAR, _NEAR, _NEARER = 2.0**-9, 2.0**-13, 2.0**-17  # x + h p is exact in float64, as x and p have 8 bits
# Distances far below these steps, at which the derivative may be another one: sqrt(x² + 1e-12) bends within 1e-6 of 0.
# The last distance of the first group is a few roundings of a number that is not 0.
_TINY, _TINY_AT_ZERO = (2.0**-20, 2.0**-30, 2.0**-40, 2.0**-48), (2.0**-64, 2.0**-96)
_SUSPICIOUS = 2.0**-16  # the relative difference from the slopes that is examined; a wrong rule is off by far more
_SIDES = 16  # random directions, each with its opposite: so many that the chance to miss all sides of a kink is small
_ROUGHLY = 2.0**-12  # the relative difference of two slopes that agree
_CLEARLY = 16  # how many times farther from the slope the derivative must be than all that should be equal to the slope

# Primitives whose derivative is a choice where operands are equal, or 0.
_CHOOSING = ("max", "min", "abs", "sort", "reduce_max", "reduce_min", "cummax", "cummin", "clamp", "top_k", "sign")


class SpecialPoints:
    """The special points made from the first generic sample of these. Complex samples have none."""

    def __init__(self, oracle: Oracle, cases: Sequence[Sample]) -> None:
        self._sample = next((s for s in cases if s.generic and s.fixed is None), None)
        self._oracle = oracle if self._sample is None else oracle.at(self._sample)
        self._found: dict[str, str | None] = {}

    def contradiction(self, name: str) -> str | None:
        """A sentence that says where the oracle's derivative contradicts the slopes of its own values; None if nowhere.

        Nor is anything said of a map that differentiates a wrong one: what is said of that is enough.
        """
        for which in reversed(list(_differentiated(name))):
            if which not in self._found:
                self._found[which] = self._contradiction_of(which)
            if self._found[which] is not None:
                return self._found[which] if which == name else None
        return None

    def _contradiction_of(self, name: str) -> str | None:
        """Return the contradiction of a map itself, or None."""
        if self._sample is None or self._oracle.is_complex or self._oracle.spec.surrogate is not None:
            return None
        for place in placements(self._oracle, self._sample, FLOAT64):
            if place.kind not in _KINDS:
                continue
            try:
                found = _contradiction_at(self._oracle, name, self._sample, place.primals)
            except Exception:  # a solver may refuse such a point, or a rounding rule may be missing
                continue
            if found is not None:
                slope, differences = found
                return (
                    f"the oracle is wrong where {place.name} (sample {self._sample.name}): the derivative of its "
                    f"{BASES[name]} along one direction is {slope:.6g}, the slope of its values "
                    f"{differences:.6g}{_rules(self._oracle, name, self._sample)}; there it judges by the limits of "
                    "its derivative"
                )
        return None


def is_wrong_at(oracle: Oracle, name: str, sample: Sample, primals: Arrays) -> bool:
    """Return whether a map, or one that it differentiates, contradicts the slopes of its own values at these inputs."""
    present = [x for x in primals if x is not None]
    if oracle.is_complex or oracle.spec.surrogate is not None or len(present) < len(primals):
        return False
    key = ("wrong at", name, *map(fingerprint, present))
    if key not in oracle.kept:
        sample = replace(sample)  # a copy: what is drawn here is none of the arguments that a failure tells
        oracle.kept[key] = any(_contradicts(oracle, which, sample, present) for which in _differentiated(name))
    return oracle.kept[key]


def _contradicts(oracle: Oracle, name: str, sample: Sample, primals: Sequence[np.ndarray]) -> bool:
    try:
        return _contradiction_at(oracle, name, sample, primals) is not None
    except Exception:  # a solver may refuse such a point, or a rounding rule may be missing
        return False


def _differentiated(name: str) -> Iterator[str]:
    """A map of the first order or more, then the one that it differentiates, and so on."""
    while name in BASES:
        yield name
        name = BASES[name]


@dataclass(frozen=True)
class _Line:
    """A map F = BASES[name] along a direction p, against weights w: φ(h) = ⟨w, F(x + h p)⟩."""

    oracle: Oracle
    name: str
    x: Sequence[np.ndarray]
    p: Sequence[np.ndarray]
    w: Sequence[np.ndarray]

    @property
    def sides(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The arguments of F' besides x, and the factors of its results: w and p for a VJP, p and w for a JVP."""
        p, w = list(self.p), list(self.w)
        return (w, p) if ORDERS[self.name][-1] == "vjp" else (p, w)

    def value(self, h: float) -> float:
        """Return φ(h)."""
        return _inner(self.w, self.values(h))

    def values(self, h: float) -> list[np.ndarray]:
        """Return F(x + h p)."""
        return self.oracle.values(BASES[self.name], [a + h * b for a, b in zip(self.x, self.p, strict=True)])

    def difference(self, h: float) -> float:
        """Return the slope of φ from -h to h."""
        return (self.value(h) - self.value(-h)) / (2 * h)

    def derivative(self, x: Sequence[np.ndarray]) -> float:
        """Return ⟨w, F'(x) p⟩, by the oracle's own derivative."""
        given, paired = self.sides
        return _inner(paired, self.oracle.values(self.name, [*x, *given]))

    def contradicts(self) -> bool:
        """Return whether the values, with their rounding, exclude the oracle's derivative at x."""
        given, paired = self.sides

        def values(name: str, args: list[np.ndarray]) -> list[np.ndarray]:
            return self.oracle.values(name, args)

        test = taylor_test(self.oracle, self.name, values, [*self.x, *given], paired)
        return test is not None and not test.right


def _inner(weights: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> float:
    return sum(float(np.sum(products(w, y))) for w, y in zip(weights, values, strict=True))


def _contradiction_at(
    oracle: Oracle, name: str, sample: Sample, primals: Sequence[np.ndarray]
) -> tuple[float, float] | None:
    """The oracle's derivative in some direction and the slope of its values there, if the two contradict; else None.

    They contradict if they differ although everything else agrees with the slope: the slopes on both sides, the slopes
    over several steps, and the derivative at points all around, whose limit is the derivative at the point itself.
    """
    with np.errstate(all="ignore"):
        for line in _lines(oracle, name, sample, primals):
            slope, between = line.derivative(line.x), line.difference(_NEAR)
            off = abs(slope - between)
            if not off > _SUSPICIOUS * (abs(slope) + abs(between)):
                return None  # they agree, as at most points, or one of them is NaN
            if not off > _CLEARLY * _apart(_one_sided(line), between) or not _converges(line, between):
                continue
            around = [line.derivative(x) for x in _around(oracle, sample, line.x, _NEAR, _SIDES)]
            if not off > _CLEARLY * _apart(around, between) or _changes_nearby(line, sample, slope, between):
                continue
            if line.contradicts():
                return slope, between
    return None


def _one_sided(line: _Line) -> list[float]:
    middle = line.value(0.0)
    return [(line.value(h) - middle) / h for h in (_NEAR, -_NEAR)]


def _converges(line: _Line, between: float) -> bool:
    """True if the slopes have a limit as the step becomes smaller; the slopes at a pole, for example, grow."""
    change = abs(line.difference(_NEARER) - between)
    rounding = 2.0**-48 * sum(
        float(np.abs(products(w, y)).sum()) for w, y in zip(line.w, line.values(0.0), strict=True)
    )
    return change <= max(abs(between - line.difference(_FAR)) / 2, _ROUGHLY * abs(between), rounding / _NEARER)


def _changes_nearby(line: _Line, sample: Sample, slope: float, between: float) -> bool:
    """True if at some small distance the oracle's derivative is nearer to that at the point than to the slope.

    Then the function bends within a distance that is smaller than the steps, so that the slopes do not show it.
    """
    distances = (*_TINY, *_TINY_AT_ZERO) if any((x == 0).any() for x in line.x) else _TINY
    for h in distances:
        neighbours = [line.derivative(x) for x in _around(line.oracle, sample, line.x, h, 2)]
        if all(abs(y - slope) < abs(y - between) for y in neighbours):
            return True
    return False


def _apart(numbers: Sequence[float], middle: float) -> float:
    """Return how far any of these numbers is from the middle; infinite if one is NaN."""
    distances = np.abs(np.array(numbers) - middle)
    return float(distances.max()) if np.isfinite(distances).all() else np.inf


def _lines(oracle: Oracle, name: str, sample: Sample, primals: Sequence[np.ndarray]) -> Iterator[_Line]:
    """A random direction, then one entry of each input, since a random direction may meet a kink in another entry."""
    m, count = oracle.map(name), len(oracle.inputs)
    shapes = oracle.shapes(tuple(x.shape for x in primals))

    def draw(what: str, slots: Sequence) -> list[np.ndarray]:
        roles = ((s, f"certificate at ties {what} {s.label}") for s in slots)
        return [as_constant(oracle.direction(sample, role, s.like, shapes)) for s, role in roles]

    base = m.arguments[: m.base]
    x = [*primals, *draw("at", base[count:])]
    p, w = draw("along", base), draw("against", oracle.map(BASES[name]).results)
    yield _Line(oracle, name, x, p, w)
    for i in range(count):
        q = [np.zeros_like(a) for a in p]
        if p[i].size and oracle.inputs[i] not in oracle.spec.detached:
            q[i].flat[0] = 1.0
            q[i] = oracle.directed(oracle.inputs[i], q[i])
            yield _Line(oracle, name, x, q, w)


def _around(
    oracle: Oracle, sample: Sample, x: Sequence[np.ndarray], distance: float, sides: int
) -> Iterator[list[np.ndarray]]:
    """Points at this distance from x, within the inputs' domains: in random directions, and opposite to each."""
    rng = np.random.default_rng(sample.seed)
    count = len(oracle.inputs)
    for _ in range(sides):
        d = [oracle.directed(n, rng.standard_normal(a.shape)) for n, a in zip(oracle.inputs, x, strict=False)]
        for h in (distance, -distance):
            yield [*(a + h * b for a, b in zip(x, d, strict=False)), *x[count:]]


def _rules(oracle: Oracle, name: str, sample: Sample) -> str:
    """Return a text on the derivative's rules that the primal's program shows: " (JAX's rule of hypot)"."""
    if oracle.has_formula(name):
        return ""
    program = oracle.program(sample.shapes)
    jaxs, own = _named_calls(program)
    if own:
        return f" (the primal's own jax.custom_jvp {' or '.join(own)})"
    names = jaxs or [p for p in _CHOOSING if p in primitives(program)]
    return f" (JAX's rule of {' or '.join(names)})" if names else ""


def _named_calls(jaxpr: core.Jaxpr) -> tuple[list[str], list[str]]:
    """The innermost public functions of JAX that choose or have a custom rule, and the user's own custom_jvps."""
    jaxs: list[str] = []
    own: list[str] = []
    for eqn in jaxpr.eqns:
        for sub in subprograms(eqn):
            inner, inner_own = _named_calls(sub)
            custom = eqn.primitive.name == "custom_jvp_call"
            function, by_jax = source(sub)
            if by_jax and not inner and not function.startswith("_") and (custom or _chooses(sub)):
                inner = [function]
            if custom and not by_jax and not inner_own:
                inner_own = [function]
            jaxs += [n for n in inner if n not in jaxs]
            own += [n for n in inner_own if n not in own]
    return jaxs, own


def _chooses(jaxpr: core.Jaxpr) -> bool:
    return any(map(_CHOOSING.__contains__, primitives(jaxpr)))
