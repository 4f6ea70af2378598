"""Wrong second derivatives at a special point only."""

from __future__ import annotations

import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_backward, pair_function


def _zero_times_infinity(x, y, g, h):
    """The derivative of 0 * sqrt(|x|) is 0 * infinity at 0."""
    x_bar, y_bar = pair_backward(x, y, g, h)
    return x_bar + 0 * x.abs().sqrt(), y_bar


SQUARE = OpSpec("square", lambda a: a @ a, "(n,n)->(n,n)", input_names=("a",), domains={"a": "definite"})


def _square(a):
    return a @ a


def _roots_of_gaps(a, w):
    """The derivative of 0 * sqrt(gap) is 0 * infinity where two eigenvalues are equal."""
    return w @ a.mT + a.mT @ w + 0 * torch.linalg.eigvalsh(a).diff().sqrt().sum()


_CALL = pair_function(backward=_zero_times_infinity).apply
CASES = (
    Operator(
        MADE_PAIR,
        pair,
        {"0 * inf at zero": Mistake(_CALL, "points_second_order", passes=("vjp", "vjp_of_vjp", "points"))},
    ),
    Operator(
        SQUARE,
        _square,
        {
            "equal eigenvalues": Mistake(
                function(_square, _roots_of_gaps), "points_second_order", passes=("vjp", "vjp_of_vjp", "points")
            )
        },
    ),
)
