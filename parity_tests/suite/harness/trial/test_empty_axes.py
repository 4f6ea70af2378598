"""Where an axis is empty: what PyTorch's own operators do otherwise is skipped by name, what a candidate does fails."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch
from jax import lax
from torch.nn import functional

from parity_tests import OpSpec, Report, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.specs.samples import samples

CONVOLUTION = OpSpec(
    "convolution",
    lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")),
    "(b,c,l),(o,c,3)->(b,o,l)",
)
SUM = OpSpec("sum", lambda x: x.sum(1) * jnp.ones((3, 1)), "(n,m)->(3,n)")


def _convolution(x, w):
    return functional.conv1d(x, w, padding=1)


def _judged(call) -> Report:
    """At two samples of the convolution: the bounds of the others take a minute."""
    plan = Plan(
        CONVOLUTION,
        [Candidate(call, "mine")],
        select_checks(["forward", "vjp", "purity"]),
        select_precisions(["float64"]),
        "cpu",
        0,
        lambda row: "",
        samples=lambda spec, seed: [s for s in samples(spec, seed) if s.name in ("all_axes_differ", "zero_c")],
    )
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return report


def test_a_convolution_of_no_channels():
    report = _judged(_convolution)
    assert report.passed, str(report)
    told = "PyTorch's convolution has an empty result there, so that an output is (4, 0, 5) and not (4, 2, 5)"
    assert report.skipped == [f"convolution, sample zero_c: mine: {told}"]


def test_a_mistake_in_a_convolution_is_seen_elsewhere():
    report = _judged(lambda x, w: 2 * _convolution(x, w))
    assert report.exit_code == 1
    assert report.failures[0].sample == "all_axes_differ"


def test_an_empty_result_of_the_candidates_own_is_not_excused_by_a_convolution():
    report = _judged(lambda x, w: _convolution(x, w) if x.numel() else x.new_zeros(4, 2, 4))
    assert report.exit_code == 1
    assert report.failures[0].sample == "zero_c"


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda x: x[:0] if x.numel() == 0 else x.sum(1) * torch.ones(3, 1), id="returned early"),
        pytest.param(lambda x: x.sum(1) * torch.ones(3, 1) if x.numel() else x.new_zeros(0, len(x)), id="made"),
        pytest.param(lambda x: (x.sum(1) * torch.ones(3, 1))[: 3 * min(1, x.numel())], id="cut off"),
    ],
)
def test_a_shape_that_is_the_candidates_own(wrong):
    report = crosscheck(wrong, SUM, checks=["forward", "vjp"], dtypes=["float64"])
    assert report.exit_code == 1, str(report)
    assert "has shape (0" in str(report)
