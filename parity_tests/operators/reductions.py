"""Reductions: mean, variance, logsumexp, a p-norm, a product."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function, saving


def away_from_zero(rng, shape):
    """Numbers of both signs, none of them near 0."""
    return rng.choice([-1, 1], shape) * (0.5 + rng.random(shape))


# The mean of each row.


def _mean(x):
    return x.mean(-1)


def _added_up_in_place(x):
    total = torch.zeros_like(x[..., 0])
    for i in range(x.shape[-1]):
        total = total + x[..., i]
    return total / x.shape[-1]


mean = Operator(
    OpSpec("mean", lambda x: jnp.mean(x, axis=-1), "(n,m)->(n)"),
    _mean,
    {
        "over_the_other_axis": Mistake(lambda x: x.mean(0), "forward"),
        "divided_by_all": Mistake(function(_mean, lambda x, w: w[:, None].expand_as(x) / max(x.numel(), 1)), "vjp"),
        "cotangent_along_the_other_axis": Mistake(
            function(_mean, lambda x, w: (w.repeat(x.shape[1]).reshape(x.shape) if len(x) else x) / x.shape[1]), "vjp"
        ),
        "16_bit_accumulator": Mistake(_added_up_in_place, "forward", "bfloat16"),
    },
)


# The variance, with and without Bessel's correction.


def _var(x, correction=1, dim=-1):
    # x.var() warns about every empty axis.
    centred = x - x.mean(dim, keepdim=True)
    return (centred * centred).sum(dim) / (x.shape[dim] - correction)


def _var_backward(x, w, correction=1):
    return w[..., None] * 2 * (x - x.mean(-1, keepdim=True)) / (x.shape[-1] - correction)


def _var_one_pass(x):
    n = x.shape[-1]
    return ((x * x).mean(-1) - x.mean(-1) ** 2) * n / (n - 1)


def _centred(x):
    centred = x - x.mean(-1, keepdim=True)
    return (centred * centred).sum(-1) / (x.shape[-1] - 1), (centred,)


def shifted(rng, shape):
    """Numbers whose spread is small beside their mean."""
    return 8 + rng.standard_normal(shape)


var = Operator(
    OpSpec("var", lambda x: jnp.var(x, axis=-1, ddof=1), "(n,3)->(n)", domains={"x": shifted}),
    _var,
    {
        "biased": Mistake(lambda x: _var(x, 0), "forward"),
        "biased_backward": Mistake(function(_var, lambda x, w: _var_backward(x, w, 0)), "vjp", passes=("forward",)),
        "one_pass": Mistake(_var_one_pass, "forward", "float32"),
        "mean_not_subtracted": Mistake(function(_var, lambda x, w: w[..., None] * 2 * x / (x.shape[-1] - 1)), "vjp"),
        "saved_intermediate": Mistake(
            saving(_centred, lambda centred, w: w[..., None] * 2 * centred / (centred.shape[-1] - 1)),
            "vjp_of_vjp",
            passes=("forward", "vjp"),
        ),
    },
)

var_biased = Operator(
    OpSpec("var_biased", lambda x: jnp.var(x, axis=0), "(n,m)->(m)"),
    lambda x: _var(x, 0, 0),
    {
        "unbiased": Mistake(lambda x: _var(x, 1, 0), "forward"),
        "unbiased_backward": Mistake(
            function(lambda x: _var(x, 0, 0), lambda x, w: w * 2 * (x - x.mean(0)) / max(x.shape[0] - 1, 1)),
            "vjp",
            passes=("forward",),
        ),
    },
)


# logsumexp


def _logsumexp(x):
    # Not torch.logsumexp, whose jvp autograd cannot differentiate.
    m = x.detach().amax(-1, keepdim=True)
    return torch.log(torch.exp(x - m).sum(-1)) + m.squeeze(-1)


def large(rng, shape):
    """Numbers of whose exponentials the sum may overflow in float16."""
    return 6 + rng.standard_normal(shape)


def _logsumexp_jvp(x, x_dot):
    return (torch.softmax(x, -1) * x_dot).sum(-1)


logsumexp = Operator(
    OpSpec("logsumexp", lambda x: jax.nn.logsumexp(x, axis=-1), "(n,m)->(n)", domains={"x": large}),
    _logsumexp,
    {
        "overflows": Mistake(lambda x: x.exp().sum(-1).log(), "forward", "float16"),
        "softmax_detached": Mistake(
            function(_logsumexp, lambda x, w: w[..., None] * torch.softmax(x, -1).detach(), _logsumexp_jvp),
            "vjp_of_vjp",
            passes=("vjp", "jvp", "adjoint"),
        ),
        "softmax_over_all": Mistake(
            function(_logsumexp, lambda x, w: w[..., None] * torch.softmax(x.flatten(), 0).reshape(x.shape)), "vjp"
        ),
        "tangent_of_the_maximum": Mistake(
            function(
                _logsumexp,
                lambda x, w: w[..., None] * torch.softmax(x, -1),
                lambda x, d: d.gather(-1, x.argmax(-1, keepdim=True)).squeeze(-1),
            ),
            "jvp",
            passes=("vjp",),
        ),
    },
)


# The 3-norm of each row.


def _p_norm(x):
    return torch.linalg.vector_norm(x, 3, -1)


def _p_norm_backward(x, w, sign=torch.sign, power=2):
    y = _p_norm(x)
    return (w / y**power)[..., None] * sign(x) * x * x


p_norm = Operator(
    OpSpec("p_norm", lambda x: (jnp.abs(x) ** 3).sum(-1) ** (1 / 3), "(n,3)->(n)", domains={"x": away_from_zero}),
    _p_norm,
    {
        "sign_missing": Mistake(function(_p_norm, lambda x, w: _p_norm_backward(x, w, torch.ones_like)), "vjp"),
        "power_of_the_norm": Mistake(function(_p_norm, lambda x, w: _p_norm_backward(x, w, power=3)), "vjp"),
    },
)


# The product of each row.


def _product(x):
    # Not x.prod(-1), whose second derivatives divide by x: of w y / x² - w y / x², which is 0, rounding is left.
    result = x[..., 0]
    for factor in x.unbind(-1)[1:]:
        result = result * factor
    return result


def _product_jvp(x, x_dot):
    return (x_dot * (x.prod(-1, keepdim=True) / x)).sum(-1)


def with_zeros(rng, shape):
    """Numbers of which one in four is zero."""
    return rng.standard_normal(shape) * (rng.random(shape) < 0.75)


product = Operator(
    OpSpec("product", lambda x: x.prod(-1), "(n,4)->(n)", input_names=("x",), domains={"x": with_zeros}),
    _product,
    {
        "divided_by_zero": Mistake(
            function(_product, lambda x, w: w[..., None] * x.prod(-1, keepdim=True) / x), "vjp", passes=("forward",)
        ),
        "zeros_skipped": Mistake(
            function(_product, lambda x, w: torch.where(x == 0, 0, w[..., None] * x.prod(-1, keepdim=True) / x)),
            "vjp",
            passes=("forward",),
        ),
        "divided_by_zero_forward": Mistake(
            function(_product, lambda x, w: torch.autograd.functional.vjp(_product, x, w)[1], _product_jvp),
            "jvp",
            passes=("vjp",),
        ),
    },
)
