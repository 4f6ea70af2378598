"""Constants and keyword parameters, which are not differentiated: how both sides get them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.domains import DOMAINS, constant
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.harness.specs._drawn import drawn

pytestmark = pytest.mark.usefixtures("certified_once")


# Constants.

SCALED = OpSpec("scaled", primal=lambda x, scale: jnp.sin(x * scale), signature="(n),(n)->(n)", constants=["scale"])


def test_constants_are_not_differentiated():
    (sample, *_) = samples(SCALED, 0)
    with pinned():
        oracle = Oracle(SCALED, sample)
        assert oracle.inputs == ("x",)
        assert [slot.label for slot in oracle.map("vjp").results] == ["x_bar"]
        assert [slot.label for slot in oracle.map("vjp_of_vjp").arguments] == ["x", "output_bar", "x_bar_bar"]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_constants_reach_both_sides_in_the_format(dtype):
    seen = []

    def scaled(x, scale):
        seen.append(scale)
        return torch.sin(x * scale)

    assert judged(scaled, SCALED, "vjp", dtype).verdict is Verdict.PASS
    assert {x.dtype for x in seen} == {getattr(torch, dtype)}
    assert not any(x.requires_grad for x in seen)


def test_constants_are_exact_in_every_format():
    x = drawn(constant(DOMAINS["real"]), (200,))
    assert all(np.array_equal(p.rounded(x), x) for p in PRECISIONS.values())
    assert not np.array_equal(PRECISIONS["bfloat16"].rounded(normal(200)), normal(200))


def test_a_constant_stays_in_its_domain():
    spec = OpSpec(
        "log",
        primal=lambda x, c: x * x * jnp.log(c),
        signature="(n),(n)->(n)",
        domains={"c": "positive"},
        constants=["c"],
    )
    assert all((sample.constants[1] > 0).all() for sample in samples(spec, 0))


def test_another_constant_is_caught():
    assert judged(lambda x, scale: torch.sin(x * scale.abs()), SCALED, "forward").verdict is Verdict.MISMATCH


# Parameters.

LEAKY = OpSpec(
    "leaky",
    primal=lambda x, slope=0.5: jnp.where(x > 0, x, slope * x),
    signature="(n)->(n)",
    params={"slope": 0.25},
)


def test_parameters_reach_both_sides():
    seen = []

    def leaky(x, slope=0.5):
        seen.append(slope)
        return torch.where(x > 0, x, slope * x)

    assert judged(leaky, LEAKY, "vjp").verdict is Verdict.PASS
    assert set(seen) == {0.25}


def test_parameters_reach_explicit_formulas():
    def vjp(x, output_bar, slope):
        return (jnp.where(x > 0, 1, slope) * output_bar,)

    spec = OpSpec("leaky", primal=LEAKY.primal, signature="(n)->(n)", params={"slope": 0.25}, vjp=vjp)
    report = crosscheck(lambda x, slope: torch.where(x > 0, x, slope * x), spec, checks=["vjp"], dtypes=["float64"])
    assert report.passed, str(report)


def test_a_parameter_that_is_ignored_is_caught():
    row = judged(lambda x, slope=0.5: torch.where(x > 0, x, 0.5 * x), LEAKY, "forward")
    assert row.verdict is Verdict.MISMATCH
