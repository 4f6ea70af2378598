"""Reductions: mean, variance, logsumexp, a p-norm, a product."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function, saving


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


def _logsumexp_forward(at, x):
    y = torch.logsumexp(x, -1)
    return (y,), (x, y)


def _logsumexp_backward(at, saved, bars):
    (x, y), g = saved, at("y_bar", bars[0])
    p = at("softmax", torch.exp(x - at("y", y)[:, None]), x)
    return (at("x_bar", g[:, None] * p),)


_LOGSUMEXP = Formulas("logsumexp", sites.rows(1, 2.0), _logsumexp_forward, _logsumexp_backward, sites.ROWS)
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
    }
    | _LOGSUMEXP.planted(
        ("y is that of the row before", "order", {"y": lambda y: y.roll(1)}),
        ("y is stale by 0.1 in every row", "stale", {"y": lambda y: y + 0.1}),
        ("the softmax is that over the columns", "size", {"softmax": lambda p, x: torch.softmax(x, 0)}),
        ("the last block of columns is masked", "mask", {"softmax": lambda p, x: sites.last_block_masked(p)}),
        sites.stale_row(
            "softmax", "the normalizer of one row is that of the block before: its softmax is 10 % too large"
        ),
        sites.first_row_for_all("y_bar"),
        sites.shifted("y_bar", "y_bar is that of the row before"),
        sites.half("x_bar"),
        sites.entry("x_bar"),
        sites.doubled_tile("x_bar"),
        sites.zero_row("x_bar"),
        sites.slight("x_bar"),
    ),
    _LOGSUMEXP,
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


# The mean over the valid positions of each sequence.


def _sequences_with_mask(rng, sizes):
    b, n, d = sizes["b"], sizes["n"], sizes["d"]
    lengths = rng.integers(n // 2 + 1, n, b)
    return [rng.standard_normal((b, n, d)), (np.arange(n) < lengths[:, None]).astype(np.float64)]


def _masked_mean(x, mask):
    return (x * mask[..., None]).sum(1) / mask.sum(1)[:, None]


def _masked_mean_forward(at, x, mask):
    weights = mask / mask.sum(1, keepdim=True)
    return ((x * mask[..., None]).sum(1) / mask.sum(1)[:, None],), (weights,)


def _masked_mean_backward(at, saved, bars):
    (weights,), g = saved, at("y_bar", bars[0])
    return (at("x_bar", g[:, None] * at("weights", weights)[..., None]),)


def _last_valid_left_out(weights):
    return torch.where(weights.roll(-1, 1) > 0, weights, torch.zeros_like(weights))


masked_mean = by_formulas(
    _masked_mean,
    Formulas(
        "mean over valid positions",
        _sequences_with_mask,
        _masked_mean_forward,
        _masked_mean_backward,
        {
            "small": {"b": 4, "n": 8, "d": 16},
            "medium": {"b": 8, "n": 64, "d": 64},
            "kernel": {"b": 8, "n": 512, "d": 128},
        },
    ),
    ("the mask leaves out the last valid position", "mask", {"weights": _last_valid_left_out}),
    ("the mean divides by all positions", "size", {"weights": lambda w: (w > 0).to(w.dtype) / w.shape[1]}),
    ("the mask is left out", "mask", {"weights": lambda w: w.amax(1, keepdim=True).expand_as(w)}),
    ("the weights are those of the sequence before", "order", {"weights": lambda w: w.roll(1, 0)}),
    ("the mask begins one position late", "mask", {"weights": lambda w: torch.cat([0 * w[:, :1], w[:, 1:]], 1)}),
    sites.stale_row("weights", "the number of valid positions of one sequence is 10 % too small"),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("x_bar"),
    sites.zero_row("x_bar"),
    sites.negated_column("x_bar"),
    sites.slight("x_bar"),
    constants=("mask",),
)
