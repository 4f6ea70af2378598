"""Operators of some sizes only, and operators of inputs that are not any real numbers."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.size_rules import AxisSize
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# A gated linear unit: two halves of an axis, which must be even.


def _glu(x):
    value, gate = jnp.split(x, 2, axis=-1)
    return value * jax.nn.sigmoid(gate)


def _glu_backward(x, w, gate_too=True):
    value, gate = x.chunk(2, -1)
    s = torch.sigmoid(gate)
    return torch.cat([w * s, w * value * s * ((1 - s) if gate_too else 1)], -1)


gated_unit = Operator(
    OpSpec("gated_unit", _glu, "(n,k)->(n,h)", sizes="k % 2 == 0, h = k // 2"),
    lambda x: functional.glu(x, -1),
    {
        "halves_swapped": Mistake(lambda x: functional.glu(torch.roll(x, x.shape[-1] // 2, -1), -1), "forward"),
        "slope_of_the_gate_missing": Mistake(
            function(lambda x: functional.glu(x, -1), lambda x, w: _glu_backward(x, w, False)),
            "vjp",
            passes=("forward",),
        ),
    },
)


# Scores of a head whose size is one of two, as kernels are written for.


def _scores(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def _scores_of_one_size(q, k):
    return q @ k.mT / math.sqrt(8)


head_sizes = Operator(
    OpSpec("head_sizes", _scores, "(n,d),(m,d)->(n,m)", sizes="d in (8, 16), n <= m"),
    _scores,
    {"one_size_for_all": Mistake(_scores_of_one_size, "forward")},
)


# A root mean square norm, whose size is a keyword parameter.


def _root_mean_square(x, size):
    return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) / size[-1] + 1e-3)


def _root_mean_square_torch(x, size, lost=0):
    return x / torch.sqrt(torch.sum(x * x, -1, keepdim=True) / (size[-1] - lost) + 1e-3)


normalized_size = Operator(
    OpSpec("normalized_size", _root_mean_square, "(n,d)->(n,d)", sizes="d >= 2", params={"size": (AxisSize("d"),)}),
    _root_mean_square_torch,
    {"one_less": Mistake(lambda x, size: _root_mean_square_torch(x, size, 1), "forward")},
)


# Gaps between sorted numbers.


def _gaps_backward(x, w, left=1.0):
    p = w / (1 + torch.diff(x))
    zero = p.new_zeros(1)
    return torch.cat([zero, p]) - left * torch.cat([p, zero])


gaps = Operator(
    OpSpec("gaps", lambda x: jnp.log1p(jnp.diff(x)), "(n)->(m)", sizes="n >= 1, m = n - 1", domains={"x": "sorted"}),
    lambda x: torch.log1p(torch.diff(x)),
    {
        "left_neighbour_forgotten": Mistake(
            function(lambda x: torch.log1p(torch.diff(x)), lambda x, w: _gaps_backward(x, w, 0.0)), "vjp"
        ),
    },
)


# The relative entropy of probabilities, whose gradient is known up to a constant.


def _entropy(p, q):
    return torch.sum(p * (torch.log(p) - torch.log(q)), -1)


def _entropy_of(of_p):
    return function(_entropy, lambda p, q, w: (w[..., None] * of_p(p, q), -w[..., None] * p / q))


relative_entropy = Operator(
    OpSpec(
        "relative_entropy",
        lambda p, q: jnp.sum(p * (jnp.log(p) - jnp.log(q)), -1),
        "(n,m),(n,m)->(n)",
        sizes="m >= 1",
        domains={"p": "probabilities", "q": "probabilities"},
    ),
    _entropy,
    {"sign_of_q": Mistake(_entropy_of(lambda p, q: torch.log(p) + torch.log(q)), "vjp", passes=("forward",))},
)


# The inverse of a general matrix.


def _inverse_backward(a, w, transposed=True):
    y = torch.linalg.inv(a)
    return -(y.mT @ w @ y.mT) if transposed else -(y @ w @ y)


general_inverse = Operator(
    OpSpec("general_inverse", lambda a: jnp.linalg.inv(a), "(n,n)->(n,n)", domains={"a": "well-conditioned"}),
    torch.linalg.inv,
    {
        "not_transposed": Mistake(
            function(torch.linalg.inv, lambda a, w: _inverse_backward(a, w, False)), "vjp", passes=("forward",)
        ),
    },
)


# The projection onto orthonormal columns.

projection = Operator(
    OpSpec(
        "projection", lambda q, x: q @ (q.T @ x), "(n,m),(n)->(n)", sizes="m <= n, m >= 1", domains={"q": "orthogonal"}
    ),
    lambda q, x: q @ (q.mT @ x),
    {
        "second_factor_forgotten": Mistake(
            function(lambda q, x: q @ (q.mT @ x), lambda q, x, w: (torch.outer(w, q.mT @ x), q @ (q.mT @ w))),
            "vjp",
            passes=("forward",),
        ),
    },
)


# A reciprocal, which has no value at 0, and the largest of numbers that differ.

reciprocal = Operator(
    OpSpec("reciprocal", lambda x: 1 / x, "(n)->(n)", domains={"x": "nonzero"}),
    torch.reciprocal,
    {"of_the_magnitude": Mistake(lambda x: 1 / x.abs(), "forward")},
)


def _of_all(x, w):
    return w[..., None].expand_as(x) / x.shape[-1]


largest_of_distinct = Operator(
    OpSpec("largest_of_distinct", lambda x: jnp.max(x, -1), "(n,m)->(n)", sizes="m >= 1", domains={"x": "distinct"}),
    lambda x: x.amax(-1),
    {"mean_of_all": Mistake(function(lambda x: x.amax(-1), _of_all), "vjp", passes=("forward",))},
)
