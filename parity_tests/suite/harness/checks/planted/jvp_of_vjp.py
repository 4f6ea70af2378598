"""A backward that forward mode cannot differentiate rightly."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function


def _saved_intermediate(x, y, g, h):
    t = torch.tanh(x).detach()
    return (1 - t * t) * y * g + y * y * h, t * g + 2 * x * y * h


def _drops_tangents(x, y, g, h):
    """Right in every reverse order; forward over reverse loses the tangent of what is saved."""
    x = forward_ad.unpack_dual(x).primal if forward_ad._current_level >= 0 else x
    return pair_backward(x, y, g, h)


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a saved intermediate": Mistake(
                pair_function(backward=_saved_intermediate).apply, "jvp_of_vjp", passes=("vjp", "jvp", "adjoint")
            ),
            "what is saved loses its tangent": Mistake(
                pair_function(backward=_drops_tangents).apply, "jvp_of_vjp", passes=("vjp", "jvp", "vjp_of_vjp")
            ),
        },
    ),
)
