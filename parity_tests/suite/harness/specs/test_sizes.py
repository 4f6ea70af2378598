"""Mistakes that are wrong at some sizes only, each caught at the sample that is there for it, and at no other."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.report.report import Report
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged, unary_function
from parity_tests.suite.marks import fast

PRODUCT = OpSpec("product", lambda x, y: x @ y, "(n,k),(k,m)->(n,m)")
SCALED = OpSpec("scaled", lambda x, y: x * jnp.sin(y), "(n|1,m|1),(n,m)->(n,m)")
CUBE = OpSpec("cube", lambda x: x * x * x, "(n)->(n)")


def _product(backward):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        def backward(ctx, *cotangents):
            x, y = ctx.saved_tensors
            return backward(cotangents[0] @ y.mT, x), x.mT @ cotangents[0]

    return Product.apply


def _columns_of_two_swapped(x_bar, x):
    return x_bar.flip(1) if x.shape[1] == 2 else x_bar


def _nothing_left_of_whole_blocks(x_bar, x):
    return torch.zeros_like(x_bar) if len(x) % 32 == 0 else x_bar


def _last_row_left_out_of_whole_blocks(x_bar, x):
    return torch.cat([x_bar[:-1], 0 * x_bar[-1:]]) if len(x) % 256 == 0 else x_bar


def _tail_of_more_than_half_a_vector_left_out(x_bar, x):
    tail = len(x) % 8
    return torch.cat([x_bar[:-tail], 0 * x_bar[-tail:]]) if len(x) > 64 and tail > 4 else x_bar


def _scaled(backward):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * torch.sin(y)

        @staticmethod
        def backward(ctx, *cotangents):
            x, y = ctx.saved_tensors
            return backward(cotangents[0] * torch.sin(y), x), cotangents[0] * x * torch.cos(y)

    return Scaled.apply


def _first_row(x_bar, x):
    return x_bar[:1] if len(x) < len(x_bar) else x_bar


def _mean_of_both(x_bar, x):
    return x_bar.mean().reshape(1, 1) if x.numel() == 1 else x_bar  # autograd itself sums over what is too long


@fast("a pair")
@pytest.mark.parametrize(
    ("call", "spec", "sample"),
    [
        pytest.param(_product(_columns_of_two_swapped), PRODUCT, "two_k", id="a pair"),
        pytest.param(_product(_nothing_left_of_whole_blocks), PRODUCT, "blocks_n", id="whole blocks"),
        pytest.param(_product(_last_row_left_out_of_whole_blocks), PRODUCT, "blocks_n", id="whole blocks of 256"),
        pytest.param(_product(_tail_of_more_than_half_a_vector_left_out), PRODUCT, "tail_n", id="a tail"),
        pytest.param(_scaled(_first_row), SCALED, "broadcast_n_of_x", id="the first row for the sum"),
        pytest.param(_scaled(_mean_of_both), SCALED, "broadcast_n_of_x_m_of_x", id="the mean for the sum"),
    ],
)
def test_a_mistake_at_one_size_is_caught_there_only(call, spec, sample):
    failure = judged(call, spec, "vjp").failure
    assert failure is not None
    assert failure.sample == sample
    assert judged(call, spec, "forward").verdict is Verdict.PASS
    plan = Plan(
        spec,
        [Candidate(call, "wrong")],
        select_checks(["vjp"]),
        select_precisions(["float64"]),
        "cpu",
        0,
        lambda row: "",
        samples=lambda spec, seed: (s for s in samples(spec, seed) if not s.name.startswith(sample)),
    )
    assert [row.verdict for row in Report({}).collect(judge(plan)) if row.candidate == "wrong"] == [Verdict.PASS]


def _one_sided(x, w):
    slope = torch.where(x < -1.25, x.detach(), x)  # its derivative is lost on one side
    return 3 * slope * slope * w


@pytest.mark.slow
def test_a_branch_of_few_entries_is_seen_of_an_operator_with_one_axis():
    call = unary_function(lambda x: x**3, _one_sided)
    assert judged(call, CUBE, "vjp").verdict is Verdict.PASS
    for seed in range(5):
        assert judged(call, CUBE, "vjp_of_vjp", seed=seed).verdict is Verdict.MISMATCH


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_right_operator_that_broadcasts_raises_no_alarm(dtype):
    report = crosscheck(lambda x, y: x * torch.sin(y), SCALED, dtypes=[dtype], limits={})
    assert report.passed, str(report)
