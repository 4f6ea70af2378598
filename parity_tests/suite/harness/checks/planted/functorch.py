"""Derivatives of second order whose batching rule is wrong."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function, pair_slope


class _Curvature(torch.autograd.Function):
    """The VJP of pair's VJP; its batching rule takes the examples in the wrong order."""

    @staticmethod
    def forward(x, y, g, h, u, v):
        return torch.func.vjp(pair_backward, x, y, g, h)[1]((u, v))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, *args):
        args = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(args, in_dims, strict=True)
        ]
        return _Curvature.apply(*(x.flip(0) for x in args)), (0, 0, 0, 0)


_CALL = pair_function(backward=pair_slope(_Curvature.apply).apply).apply
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a batching rule of second order": Mistake(
                _CALL, "functorch", passes=("forward", "vjp", "vjp_of_vjp", "vmap")
            )
        },
    ),
)
