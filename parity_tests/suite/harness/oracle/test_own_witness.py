"""A witness that the harness does not have, added through the public door: a class, and one line to register it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.certificate import certify
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.witness import Place, paired, register, registered, witnesses
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import rows


@dataclass(frozen=True)
class Differences:
    """Central differences of the values in float64, with Richardson's extrapolation to a vanishing step."""

    name: str = "central differences"
    step: float = 2.0**-9

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        return not oracle.is_surrogate(name) and not oracle.is_complex

    def findings(self, place: Place) -> Iterator[Finding]:
        p, w = place.directions, place.weights
        if ORDERS[place.name][-1] == "vjp":
            p, w = w, p

        def slope(h: float) -> tuple[float, float]:
            """Of ⟨w, F(x + h p)⟩, and what rounding may make of it, that of the points included."""
            points = ([a + side * h * b for a, b in zip(place.x, p, strict=True)] for side in (1, -1))
            above, below = (paired(w, place.oracle.evaluate(BASES[place.name], x, FLOAT64)) for x in points)
            return (above[0] - below[0]) / (2 * h), (above[1] + below[1]) / (2 * h)

        (coarse, e1), (middle, e2), (fine, e3) = (slope(h) for h in (self.step, self.step / 2, self.step / 4))
        once, twice = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
        derivative, rounding = (16 * twice - once) / 15, 2 * (e1 + e2 + e3)
        said, error = paired(place.weights, place.results)
        bound = error + rounding + abs(derivative - twice)
        yield Comparison(f"slope of {BASES[place.name]}", *map(np.atleast_1d, (said, derivative, bound)))


NAME = Differences().name


def times(**formulas: Callable) -> OpSpec:
    """Output sin(x) y at samples that the harness makes, with explicit formulas for some maps."""
    return OpSpec("times", primal=lambda x, y: jnp.sin(x) * y, signature="(n),(n)->(n)", **formulas)


def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * y


def right(x, y, g):
    return jnp.cos(x) * y * g, jnp.sin(x) * g


def wrong(x, y, g):
    return jnp.cos(x) * y * g * (1 + 2.0**-20), jnp.sin(x) * g


def report_of(spec: OpSpec, check: str = "vjp") -> Report:
    return crosscheck(call, spec, checks=[check], dtypes=["float64"])


def certificate(report: Report) -> Row:
    (row,) = (row for row in report.rows if row.candidate == ORACLE)
    return row


def findings_of(spec: OpSpec, name: str) -> list[list[Finding]]:
    """What the registered witnesses say at each sample."""
    found = []
    for sample in samples(spec, 0):
        if not sample.first_order_only:
            with pinned():
                found.append(list(certify(Oracle(spec, sample), name, sample)))
    return found


@pytest.mark.parametrize("name", ["vjp", "jvp", "vjp_of_vjp", "jvp_of_jvp"])
def test_it_agrees_with_a_right_oracle(name):
    spec = times(vjp=right)
    without = findings_of(spec, name)
    with registered(Differences()):
        found = findings_of(spec, name)
    for before, after in zip(without, found, strict=True):
        assert all(f.holds for f in after)
        own = [f for f in after if f.circumstance == NAME]
        assert len(after) == len(before) + len(own)
        assert [f.label for f in own] == [f"slope of {BASES[name]}"] * len(own)
    assert sum(f.evidence for after in found for f in after if f.circumstance == NAME) >= 3


def test_it_counts_as_evidence_of_the_certificate():
    before = certificate(report_of(times(vjp=right)))
    with registered(Differences()):
        after = certificate(report_of(times(vjp=right)))
    assert before.verdict is after.verdict is Verdict.PASS
    assert after.comparisons > before.comparisons


def test_its_disagreement_with_a_wrong_formula_has_its_name():
    with registered(Differences()):
        report = report_of(times(vjp=wrong))
    row = certificate(report)
    assert row.verdict is Verdict.MISMATCH
    assert NAME in [result.circumstance for result in row.failure.wrong]
    assert f"slope of forward  ({NAME})" in str(report)
    (judged,) = rows(report)
    assert judged.verdict is Verdict.UNRESOLVED
    assert NAME not in str(report_of(times(vjp=wrong)))  # it is registered for the block only


@pytest.mark.slow
def test_its_word_alone_takes_the_certificate_away():
    """The harness demands of a surrogate gradient that it is linear, and no more."""

    @dataclass(frozen=True)
    class Positive:
        name: str = "sign of a surrogate"

        def can_judge(self, oracle: Oracle, name: str) -> bool:
            return oracle.is_surrogate(name) and name == "vjp"

        def findings(self, place: Place) -> Iterator[Finding]:
            for y, g in zip(place.results, place.directions, strict=True):
                yield Comparison(y.label, y.value * g, np.abs(y.value * g), y.bound * np.abs(g))

    def step(sign: float) -> OpSpec:
        surrogate = lambda x, g: sign * g / (1 + x * x)  # noqa: E731
        return OpSpec("step", primal=lambda x: jnp.sign(x), signature="(n)->(n)", surrogate=surrogate)

    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sign(x)

        @staticmethod
        def backward(ctx, g):
            return g / (1 + ctx.saved_tensors[0] ** 2)

    with registered(Positive()):
        agreed, row = (
            certificate(crosscheck(Step.apply, step(sign), checks=["vjp"], dtypes=["float64"])) for sign in (1.0, -1.0)
        )
    assert agreed.verdict is Verdict.PASS
    assert row.verdict is Verdict.MISMATCH
    assert row.reason.startswith("x_bar: sign of a surrogate: differs by ")


def test_a_name_is_given_once():
    known = list(witnesses())
    with registered(Differences()):
        assert list(witnesses()) == [*known, NAME]
        with pytest.raises(ValueError, match=f"a witness named '{NAME}' is registered already, a Differences; give"):
            register(Differences())
    assert (
        list(witnesses())
        == known
        == [
            *("autodiff", "transposition", "Taylor rate", "linearity", "detachment"),
            "slope in hundreds of bits",
        ]
    )
