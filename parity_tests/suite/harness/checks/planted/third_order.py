"""A double backward that autograd cannot differentiate."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function, pair_slope


def _constant_curvature(x, y, g, h, u, v):
    """The VJP of pair's VJP, in which everything but the cotangents is a constant."""
    primals = (x.detach() for x in (x, y, g, h))
    return torch.func.vjp(pair_backward, *primals)[1]((u, v))


_CALL = pair_function(backward=pair_slope(_constant_curvature).apply).apply
CASES = (
    Operator(
        PAIR,
        pair,
        {"a double backward without graph": Mistake(_CALL, "third_order", passes=("forward", "vjp", "vjp_of_vjp"))},
    ),
)
