"""Operators whose mistakes show at special points only: at ties of many, and far out in the range of a format."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch
from jax import lax

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# The largest of twelve, of 72 rows: where all are equal any of a row may have the gradient, or a part of it.


def _largest_with(share):
    """The cotangent goes to the first of the largest, times `share`."""

    def back(x, w):
        first = x.argmax(-1, keepdim=True)
        return torch.zeros_like(x).scatter(-1, first, share * w[..., None])

    return function(lambda x: x.amax(-1), back)


largest_of_twelve = Operator(
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


bump = Operator(
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


softplus_twice = Operator(
    OpSpec("softplus_twice", jax.nn.softplus, "(n)->(n)", input_names=("x",)),
    function(_softplus_torch, lambda x, w: w * torch.sigmoid(x)),
    {
        # Its derivative at 0 is two halves. The second one is 1/4, and 0 by autograd.
        "curvature_lost_at_zero": Mistake(_softplus_torch, "points_second_order", passes=("vjp_of_vjp", "points")),
    },
)


# A router: the softmax over the two largest of six logits. Of an infinite one it is NaN, by logistic functions 0 and 1.


def _two_largest(x):
    largest, index = lax.top_k(x, 2)
    return jax.nn.sigmoid(largest - largest[..., ::-1]), jax.nn.one_hot(index, x.shape[-1], dtype=x.dtype)


def _router(x):
    weights, places = _two_largest(x)
    return jnp.sum(weights[..., None] * places, axis=-2)


def _router_jvp(x, x_dot):
    """The tangent by softmax's own formula; that of logistic functions takes the tangents' difference first, and loses
    less than any softmax where they are nearly equal."""
    weights, places = _two_largest(x)
    dots = jnp.sum(places * x_dot[..., None, :], axis=-1)
    weights_dot = weights * (dots - jnp.sum(weights * dots, axis=-1, keepdims=True))
    return jnp.sum(weights_dot[..., None] * places, axis=-2)


def _router_torch(x):
    largest, index = x.topk(2, -1)
    return torch.zeros_like(x).scatter(-1, index, largest.softmax(-1))


router = Operator(
    OpSpec("router", _router, "(n,6)->(n,6)", jvp=_router_jvp),
    _router_torch,
    {
        "all_of_them_in_the_denominator": Mistake(
            lambda x: x.softmax(-1) * (x >= x.topk(2, -1).values[..., 1:]), "forward"
        )
    },
)


# The mean of logits by their own softmax, where minus infinity is a mask.


def _mean_logit(logits):
    p = jax.nn.softmax(logits, axis=-1)
    return jnp.sum(p * jnp.where(p > 0, logits, 0.0), axis=-1)


def _mean_logit_torch(logits):
    p = logits.softmax(-1)
    return (p * torch.where(p > 0, logits, torch.zeros_like(logits))).sum(-1)


mean_logit = Operator(
    OpSpec("mean_logit", _mean_logit, "(n,m)->(n)", domains={"logits": "extended"}),
    _mean_logit_torch,
    {
        "a_mask_is_multiplied_by_zero": Mistake(
            lambda logits: (logits.softmax(-1) * logits).sum(-1), "points", passes=("forward", "vjp")
        )
    },
)


# x / y, far out where y * y overflows or is 0, and x / y and its derivatives are ordinary numbers.


def _quotient_with(by_y):
    def vjp(x, y, w):
        return w / y, -by_y(w, x, y)

    return function(torch.div, vjp, lambda x, y, x_dot, y_dot: x_dot / y - by_y(y_dot, x, y))


quotient = Operator(
    OpSpec("quotient", lambda x, y: x / y, "(n),(n)->(n)", domains={"y": "nonzero"}),
    _quotient_with(lambda w, x, y: w * (x / y) / y),
    {
        f"squared_in_{dtype}": Mistake(
            _quotient_with(lambda w, x, y: w * x / (y * y)), "points", dtype, passes=("forward", "vjp")
        )
        for dtype in ("float32", "bfloat16", "float16")
    },
)
