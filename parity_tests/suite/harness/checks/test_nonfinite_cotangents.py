"""nonfinite_cotangents: a backward that raises of what is no number hides nothing."""

from __future__ import annotations

import torch

from parity_tests import Verdict
from parity_tests.suite.harness._ops import SQUARE, judged


class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, y_bar):
        if not y_bar.isfinite().all():
            raise RuntimeError("the cotangent is not finite")
        return 2 * ctx.saved_tensors[0] * y_bar


def test_an_exception_is_as_good_as_nan() -> None:
    row = judged(Raising.apply, SQUARE, "nonfinite_cotangents")
    assert (row.verdict, row.reason) == (Verdict.PASS, "")
    assert row.comparisons > 0
