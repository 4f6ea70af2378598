"""Operators whose mistakes show at special points only: at ties of many, and far out in the range of a format."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from parity_tests.harness.spec import OpSpec
from parity_tests.suite.collection._case import Case, Mistake, function

# The largest of twelve, of 72 rows: where all are equal any of a row may have the gradient, or a part of it.


def _largest_with(share):
    """The cotangent goes to the first of the largest, times `share`."""

    def back(x, w):
        first = x.argmax(-1, keepdim=True)
        return torch.zeros_like(x).scatter(-1, first, share * w[..., None])

    return function(lambda x: x.amax(-1), back)


largest_of_twelve = Case(
    OpSpec("largest_of_twelve", lambda x: jnp.max(x, axis=-1), "(n,18,12)->(n,18)"),
    lambda x: x.max(-1).values,
    {
        "one_percent_too_much": Mistake(_largest_with(1.01), "points"),
        "all_of_the_largest": Mistake(
            function(lambda x: x.amax(-1), lambda x, w: (x == x.amax(-1, keepdim=True)) * w[..., None]),
            "points",
            passes=("vjp",),
        ),
    },
)


# Derivatives that are right, and of which autograd makes wrong second ones.


def _bump(x):
    return x * jnp.exp(-x * x)


def _bump_torch(x):
    return x * torch.exp(-x * x)


def _bump_slope(x):
    return (1 - 2 * x * x) * torch.exp(-x * x)


def _slope_of_both_branches(x):
    """The quotient x / x is left out at 0, but its derivative there, which is NaN, is multiplied by 0."""
    return torch.where(x == 0, 1.0, _bump_slope(x) * (x / x))


bump = Case(
    OpSpec("bump", _bump, "(n)->(n)"),
    function(_bump_torch, lambda x, w: w * _bump_slope(x)),
    {
        "nan_from_the_other_branch": Mistake(
            function(_bump_torch, lambda x, w: w * _slope_of_both_branches(x)),
            "points_second_order",
            passes=("vjp", "points"),
        ),
        # 1 / exp(x^2) is 0 where that overflows, and the derivative of it infinity / infinity.
        "divided_by_an_exponential": Mistake(
            function(_bump_torch, lambda x, w: w * (1 - 2 * x * x) / torch.exp(x * x)),
            "points_second_order",
            passes=("vjp_of_vjp", "points"),
        ),
    },
)


def _softplus_torch(x):
    return torch.maximum(x, torch.zeros_like(x)) + torch.log1p(torch.exp(-x.abs()))


softplus_twice = Case(
    OpSpec("softplus_twice", jax.nn.softplus, "(n)->(n)", input_names=("x",)),
    function(_softplus_torch, lambda x, w: w * torch.sigmoid(x)),
    {
        # Its derivative at 0 is two halves. The second one is 1/4, and 0 by autograd.
        "curvature_lost_at_zero": Mistake(_softplus_torch, "points_second_order", passes=("vjp_of_vjp", "points")),
    },
)


CASES = {"largest_of_twelve": largest_of_twelve, "bump": bump, "softplus_twice": softplus_twice}
