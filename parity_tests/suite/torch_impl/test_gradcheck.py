"""PyTorch's own gradcheck and gradgradcheck with everything on, at their default tolerances.

Sizes, subsets of the inputs and formats are for the harness, which sees more: `benchmarks/results/judging.md`.
"""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from parity_tests.suite.marks import fast
from parity_tests.suite.torch_impl._common import PRIMALS, Attn, draw, explicit_formulas

CASES = [
    pytest.param((2, 3, 4, 1), PRIMALS, id="all_axes_differ"),
    pytest.param((2, 2, 2, 2), PRIMALS, id="all_axes_equal"),  # here no wrong transpose is an error of shapes
]

cases = pytest.mark.parametrize(("sizes", "requires_grad"), CASES)
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])


@pytest.fixture(autouse=True)
def seeded():
    """gradcheck draws directions from torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def joined(attn: Attn):
    """One result that needs both: gradcheck pulls back one output at a time, so that by itself it never has both
    cotangents there at once."""

    def output_times_attn(q, k, v):
        output, attn_matrix = attn(q, k, v)
        return output.mT @ attn_matrix

    return output_times_attn


@fast("*-float64-*")
@explicit_formulas
@dtypes
@cases
def test_first_order(attn: Attn, dtype, sizes, requires_grad):
    primals = draw(PRIMALS, sizes, dtype=dtype, requires_grad=requires_grad)
    for function in (attn, joined(attn)):
        assert gradcheck(
            function,
            primals,
            check_undefined_grad=True,
            check_batched_grad=True,
            check_forward_ad=True,
            check_batched_forward_grad=True,
        )


@fast("*-float64-*")
@explicit_formulas
@dtypes
@cases
def test_second_order(attn: Attn, dtype, sizes, requires_grad):
    primals = draw(PRIMALS, sizes, dtype=dtype, requires_grad=requires_grad)
    assert gradgradcheck(
        attn,
        primals,
        gen_non_contig_grad_outputs=True,
        check_undefined_grad=True,
        check_batched_grad=True,
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
    )
