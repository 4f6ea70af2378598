"""Formulas that no sample tells from the right one: what they add is less than a rounding of float64."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parity_tests.harness.findings import Verdict
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function


def _with(change: Callable[[torch.Tensor], torch.Tensor], verdict: Verdict = Verdict.MISMATCH) -> Mistake:
    """A VJP whose first result is changed. At a cotangent of zeros a term shows, and a factor nowhere."""

    def backward(x, y, g, h):
        x_bar, y_bar = pair_backward(x, y, g, h)
        return change(x_bar), y_bar

    call = pair_function(backward=backward).apply
    return Mistake(call, "proof", passes=("forward", "vjp", "jvp"), verdict=verdict)


CASES = (
    Operator(
        MADE_PAIR,
        pair,
        {
            "a term of 1e-40": _with(lambda x_bar: x_bar + 1e-40),
            "a factor of 1 - 2^-60": _with(lambda x_bar: x_bar * (1 + 2.0**-30) * (1 - 2.0**-30), Verdict.UNRESOLVED),
            "one entry by 1e-40 more": _with(lambda x_bar: x_bar + 1e-40 * torch.eye(*x_bar.shape, dtype=x_bar.dtype)),
        },
    ),
)
