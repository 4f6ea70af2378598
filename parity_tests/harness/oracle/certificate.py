"""The oracle certifies itself first: explicit formula, autodiff, transposition and Taylor remainder must agree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parity_tests.harness.findings import Comparison, Fact, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers.complex_parts import products
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.kinks import is_kink, step_off_kink
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.taylor import TaylorTest, taylor_test
from parity_tests.harness.specs.samples import Sample


def certify(oracle: Oracle, name: str, sample: Sample) -> Iterator[Finding]:
    """Findings on one map of the oracle at one sample, in float64.

    The explicit formula, if there is one, against JAX autodiff of the plain primal; a VJP against the JVP of the same
    map by ⟨w, J u⟩ = ⟨Jᵀ w, u⟩, which is real of complex arrays, too (see `complex_parts`); the derivative against the
    Taylor remainder of the map that it differentiates. At a kink two right derivatives may differ: they are asked
    beside it. A surrogate gradient, which is no derivative, is certified to be linear in the cotangents.
    """
    inputs = sample.primals(oracle.inputs)
    if oracle.is_surrogate(name):
        yield from _linear(oracle, name, sample, inputs)
        return
    if any(np.isnan(y).any() for y in oracle.values("forward", inputs)):
        return  # the operator has no value there, and no derivative
    findings = list(_certified(oracle, name, sample, inputs))
    if not all(f.holds for f in findings) and is_kink(oracle, name, inputs, sample):
        findings = list(_certified(oracle, name, sample, step_off_kink(oracle, inputs, sample)))
    yield from findings


def _certified(oracle: Oracle, name: str, sample: Sample, inputs: list[np.ndarray]) -> Iterator[Finding]:
    shapes = oracle.shapes(tuple(x.shape for x in inputs))

    def draw(slots):
        return [oracle.direction(sample, f"certificate {slot.label}", slot.like, shapes) for slot in slots]

    m = oracle.map(name)
    x = [*inputs, *draw(m.arguments[len(inputs) : m.base])]
    direction = draw(m.arguments[m.base :])
    truths = oracle.evaluate(name, [*x, *direction], FLOAT64)
    plain = oracle.evaluate(name, [*x, *direction], FLOAT64, by_autodiff=True) if oracle.has_formula(name) else truths
    if not all(np.isfinite(value).all() for value, _ in plain):
        return  # the operator has no derivative there: the standard deviation of a single number, say
    if oracle.has_formula(name):
        for slot, (explicit, e1), (autodiff, e2) in zip(m.results, truths, plain, strict=True):
            left, right = oracle.directed(slot.like, explicit), oracle.directed(slot.like, autodiff)
            error = oracle.directed_errors(slot.like, e1 + e2, autodiff)
            yield Comparison(slot.label, left, right, error, "explicit formula against autodiff of the primal")

    # A VJP's results are paired with p, a JVP's with w: both give ⟨w, F'(x) p⟩.
    weights = draw(m.results)
    if ORDERS[name][-1] == "vjp":
        twin = _twin(name)
        left, left_error = _inner(weights, truths)
        right, right_error = _inner(direction, oracle.evaluate(twin, [*x, *weights], FLOAT64))
        error = np.array([left_error + right_error])
        yield Comparison(f"⟨{name}, p⟩", np.array([left]), np.array([right]), error, f"⟨w, {twin}⟩")
    if any(d.size for d in direction) and any(d.size for d in weights):
        test = taylor_test(oracle, name, None, [*x, *direction], weights)
        if test is not None:
            yield Fact(f"Taylor rate of {name}", test.right, _violation(test))


def _violation(test: TaylorTest) -> str:
    if test.shows_in_rate:
        return f"is {test.rate:.2f}; it is 2 for a right derivative"
    return f"is {test.rate:.2f}, but the derivative is off by {test.relative_error:.1g} of its size"


def _linear(oracle: Oracle, name: str, sample: Sample, inputs: list[np.ndarray]) -> Iterator[Finding]:
    """Is a map linear in its cotangents, or tangents?"""
    shapes, slots = oracle.shapes(tuple(x.shape for x in inputs)), oracle.map(name)

    def draw(which: str) -> list[np.ndarray]:
        directions = ((s, f"certificate {which} {s.label}") for s in slots.arguments[slots.base :])
        return [oracle.direction(sample, role, s.like, shapes) for s, role in directions]

    p, q = draw("first"), draw("second")
    of_p, of_q = (oracle.evaluate(name, [*inputs, *directions], FLOAT64) for directions in (p, q))
    for scale in (1.0, -(2.0**10)):
        together = [scale * a + b for a, b in zip(p, q, strict=True)]
        of_both = oracle.evaluate(name, [*inputs, *together], FLOAT64)
        for slot, (a, e_a), (b, e_b), (both, e) in zip(slots.results, of_p, of_q, of_both, strict=True):
            apart = scale * a + b
            error = abs(scale) * e_a + e_b + e + 2 * FLOAT64.u * (np.abs(scale * a) + np.abs(b))
            text = f"of the sum {scale:g} p + q, against {scale:g} times that of p, plus that of q"
            yield Comparison(slot.label, both, apart, error, f"OpSpec.surrogate must be linear: {text}")


def _twin(name: str) -> str:
    """The JVP of the map that `name` is the VJP of."""
    order = (*ORDERS[name][:-1], "jvp")
    return next(other for other, o in ORDERS.items() if o == order)


def _inner(directions, truths) -> tuple[float, float]:
    value = sum(float(np.sum(products(d, y))) for d, (y, _) in zip(directions, truths, strict=True))
    # The sum itself rounds, too: at worst once for each term, of which a product of complex numbers has two.
    count = sum((2 if np.iscomplexobj(d) else 1) * d.size for d in directions)
    magnitude = sum(float(np.sum(np.abs(d) * np.abs(y))) for d, (y, _) in zip(directions, truths, strict=True))
    bound = sum(float(np.sum(np.abs(d) * e)) for d, (_, e) in zip(directions, truths, strict=True))
    return value, bound + count * FLOAT64.u * magnitude
