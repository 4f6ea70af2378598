"""A forward mode that autograd cannot differentiate rightly."""

from __future__ import annotations

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, PairWithJvp, pair, pair_jvp


class JvpDetached(PairWithJvp):
    """Right to first order; reverse over forward takes x for a constant."""

    @staticmethod
    def jvp(ctx, x_dot, y_dot):
        x, y = ctx.saved_tensors
        return pair_jvp(x.detach(), y, x_dot, y_dot)


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a jvp hidden from autograd": Mistake(
                JvpDetached.apply, "vjp_of_jvp", passes=("forward", "vjp", "jvp", "vjp_of_vjp")
            )
        },
    ),
)
