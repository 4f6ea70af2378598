"""Layers as people write them: activations with parameters, attention with its logsumexp, dropout, rotary embedding."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import norms, sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function, saving

# mish(x) = x tanh(softplus(x))


def _mish_backward(x, w):
    t = torch.tanh(functional.softplus(x))
    return w * (t + x * (1 - t * t) * torch.sigmoid(x))


def _mish_saved(x):
    t = torch.tanh(functional.softplus(x))
    return x * t, (x, t)


def _mish_kernel(x, w):
    """Reads the cotangent's memory from its start on, as a kernel that is given a pointer does."""
    return _mish_backward(x, torch.as_strided(w, x.shape, x.stride()))


mish = Operator(
    OpSpec("mish", lambda x: x * jnp.tanh(jax.nn.softplus(x)), "(n)->(n)"),
    lambda x: x * torch.tanh(functional.softplus(x)),  # PyTorch's own has no second derivative beyond exp's overflow
    {
        "chain_rule_of_softplus_missing": Mistake(
            function(
                functional.mish,
                lambda x, w: (
                    w * (torch.tanh(functional.softplus(x)) + x * (1 - torch.tanh(functional.softplus(x)) ** 2))
                ),
            ),
            "vjp",
        ),
        "saved_intermediate": Mistake(
            saving(_mish_saved, lambda x, t, w: w * (t + x * (1 - t * t) * torch.sigmoid(x))),
            "vjp_of_vjp",
            passes=("vjp",),
        ),
        "pointer_to_the_cotangent": Mistake(function(functional.mish, _mish_kernel), "layouts", passes=("vjp",)),
        "jvp_of_silu": Mistake(
            function(functional.mish, _mish_backward, lambda x, d: d * torch.sigmoid(x) * (1 + x)),
            "jvp",
            passes=("vjp",),
        ),
        "half_precision_inside": Mistake(lambda x: functional.mish(x.half()).to(x.dtype), "forward", "float32"),
    },
)

# prelu, with one slope for each channel


def _prelu_torch(x, a):
    return torch.where(x >= 0, x, a * x)


def _prelu_with(of_a):
    return function(_prelu_torch, lambda x, a, w: (w * torch.where(x >= 0, 1.0, a).to(x.dtype), of_a(x, w)))


prelu = Operator(
    OpSpec("prelu", lambda x, a: jnp.where(x >= 0, x, a * x), "(n,c),(c)->(n,c)"),
    _prelu_torch,
    {
        "slope_of_the_other_side": Mistake(_prelu_with(lambda x, w: (w * x.clamp(min=0)).sum(0)), "vjp"),
        "slope_averaged": Mistake(_prelu_with(lambda x, w: (w * x.clamp(max=0)).sum(0) / max(len(x), 1)), "vjp"),
        "slope_summed_over_channels": Mistake(
            _prelu_with(lambda x, w: (w * x.clamp(max=0)).sum().expand(x.shape[1])), "vjp", passes=("forward",)
        ),
        "slope_not_differentiated": Mistake(_prelu_with(lambda x, w: None), "vjp", passes=("forward",)),
    },
)

# swiglu(x, w, v) = silu(x w) * (x v)


def _swiglu_torch(x, w, v):
    return functional.silu(x @ w) * (x @ v)


def _swiglu_backward(x, w, v, y_bar, of_gate=lambda g: torch.sigmoid(g) * (1 + g * (1 - torch.sigmoid(g)))):
    g, u = x @ w, x @ v
    g_bar, u_bar = y_bar * u * of_gate(g), y_bar * functional.silu(g)
    return g_bar @ w.T + u_bar @ v.T, x.T @ g_bar, x.T @ u_bar


def _swiglu_in_place(x, w, v, y_bar):
    y_bar *= functional.silu(x @ w)  # the cotangent's memory is as good as any
    return (*_swiglu_backward(x, w, v, y_bar)[:2], x.T @ y_bar)


swiglu = Operator(
    OpSpec("swiglu", lambda x, w, v: jax.nn.silu(x @ w) * (x @ v), "(n,d),(d,h),(d,h)->(n,h)"),
    _swiglu_torch,
    {
        "gate_as_sigmoid": Mistake(
            function(_swiglu_torch, lambda *a: _swiglu_backward(*a, of_gate=torch.sigmoid)), "vjp"
        ),
        "weights_swapped": Mistake(
            function(_swiglu_torch, lambda *a: tuple(_swiglu_backward(*a)[i] for i in (0, 2, 1))), "vjp"
        ),
        "cotangent_overwritten": Mistake(function(_swiglu_torch, _swiglu_in_place), "purity"),
        "only_one_path_to_x": Mistake(
            function(
                _swiglu_torch,
                lambda x, w, v, b: ((b * functional.silu(x @ w)) @ v.T, *_swiglu_backward(x, w, v, b)[1:]),
            ),
            "vjp",
        ),
    },
)

# rms_norm by the reciprocal of the root, whose derivative overflows in float16 where that of a division does not


def _rms_norm(x, w):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + norms.EPS) * w


def _root_of_all(w_bar, x, g):
    return (g * x).sum(0) * torch.rsqrt((x * x).mean() + norms.EPS)


rms_norm_of_rows = Operator(
    replace(norms.rms_norm.spec, name="rms_norm_of_rows", primal=_rms_norm),
    norms.RMS_NORM.composed,
    {
        "norm_is_a_constant": norms.RMS_NORM.mistake({"mean": torch.zeros_like}),
        "saved_rsqrt": norms.RMS_NORM.mistake({}, "vjp_of_vjp", passes=("vjp",)),
        "sum_for_mean": norms.RMS_NORM.mistake({"w_bar": _root_of_all}),
        "gain_in_low_precision": norms.RMS_NORM.mistake(
            {"w_bar": lambda w, x, g: w.bfloat16().to(w.dtype)}, dtype="float32"
        ),
    },
)

# causal attention, masked with -inf, with its logsumexp


def _attention(q, k, v):
    s = q @ k.T
    s = jnp.where(jnp.tril(jnp.ones(s.shape, bool)), s, -jnp.inf)
    return jax.nn.softmax(s, axis=-1) @ v, jax.nn.logsumexp(s, axis=-1)


def _scores(q, k):
    s = q @ k.T
    return s.masked_fill(~torch.ones(s.shape, dtype=torch.bool).tril(), -math.inf)


def _attention_torch(q, k, v):
    # A composition, not torch.logsumexp, whose jvp autograd cannot differentiate.
    s = _scores(q, k)
    m = s.detach().amax(-1, keepdim=True)
    lse = (m + (s - m).exp().sum(-1, keepdim=True).log())[:, 0]
    return torch.exp(s - lse[:, None]) @ v, lse


def _attention_backward(q, k, v, o_bar, lse_bar, use_lse=True, use_delta=True):
    s = _scores(q, k)
    p = torch.exp(s - torch.logsumexp(s, -1, keepdim=True))
    p_bar = o_bar @ v.T
    s_bar = p * (p_bar - (p * p_bar).sum(-1, keepdim=True)) if use_delta else p * p_bar
    if use_lse:
        s_bar = s_bar + p * lse_bar[:, None]
    return s_bar @ k, s_bar.T @ q, p.T @ o_bar


attention_lse = Operator(
    OpSpec("attention_lse", _attention, "(4,d),(4,d),(4,e)->(4,e),(4)"),
    _attention_torch,
    {
        "lse_is_not_differentiable": Mistake(
            function(_attention_torch, lambda *a: _attention_backward(*a, use_lse=False)), "vjp", passes=("forward",)
        ),
        "delta_missing": Mistake(
            function(_attention_torch, lambda *a: _attention_backward(*a, use_delta=False)), "vjp"
        ),
        "mask_after_softmax": Mistake(
            lambda q, k, v: (torch.softmax(q @ k.T, -1).tril() @ v, torch.logsumexp(_scores(q, k), -1)), "forward"
        ),
        "lse_of_all_keys": Mistake(
            lambda q, k, v: (_attention_torch(q, k, v)[0], torch.logsumexp(q @ k.T, -1)), "forward"
        ),
    },
)

KEPT = 0.75  # the probability that dropout keeps an entry


def _with_mask(rng, sizes):
    shape = sizes["n"], sizes["m"]
    return [rng.standard_normal(shape), rng.standard_normal(shape), (rng.random(shape) < KEPT).astype(np.float64)]


def _dropout_forward(at, x, residual, mask):
    return (residual + x * (mask * (1 / KEPT)),), (mask,)


def _dropout_backward(at, saved, bars):
    (mask,), (g,) = saved, bars
    factors = at("scale", at("mask", mask) * (1 / KEPT))
    return at("x_bar", at("y_bar", g) * factors), at("residual_bar", g, mask)


dropout = by_formulas(
    lambda x, residual, mask: residual + x * mask / KEPT,
    Formulas("dropout with a given mask, added", _with_mask, _dropout_forward, _dropout_backward, sites.ROWS),
    sites.factor("scale", KEPT, "the division by the probability is missing in x_bar"),
    ("the mask is inverted", "mask", {"mask": lambda m: 1 - m}),
    ("the mask is left out of x_bar", "mask", {"mask": torch.ones_like}),
    sites.shifted("mask", "the mask is that of the column before", axis=1),
    ("the mask is applied to residual_bar, too", "mask", {"residual_bar": lambda g, mask: g * mask}),
    sites.left_out("residual_bar", "residual_bar is zero"),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("residual_bar"),
    sites.doubled_tile("x_bar"),
    sites.zero_row("residual_bar"),
    sites.slight("x_bar"),
    constants=("mask",),
)


def _with_angles(rng, sizes):
    n, heads, d = sizes["n"], sizes["h"], sizes["d"]
    angles = np.arange(n)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
    return [rng.standard_normal((n, heads, d)), np.cos(angles), np.sin(angles)]


def _rotary(x, cos, sin):
    first, second = jnp.split(x, 2, axis=-1)
    cos, sin = cos[:, None], sin[:, None]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def _rotary_forward(at, x, cos, sin):
    return (_rotated(x, cos[:, None], sin[:, None]),), (cos, sin)


def _rotary_backward(at, saved, bars):
    (cos, sin), g = saved, at("y_bar", bars[0])
    cos, sin = at("cos", cos)[:, None], at("sin", sin)[:, None]
    return (at("x_bar", _rotated(g, cos, -sin), g),)


def _row_before(x):
    return torch.cat([x[:1], x[:-1]])


def _second_half_not_rotated(x, g):
    half_ = x.shape[-1] // 2
    return torch.cat([x[..., :half_], g[..., half_:]], -1)


def _one_head_not_rotated(x, g):
    return torch.cat([x[:, :-1], g[:, -1:]], 1)


rotary = by_formulas(
    _rotary,
    Formulas(
        "rotary embedding",
        _with_angles,
        _rotary_forward,
        _rotary_backward,
        {
            "small": {"n": 8, "h": 2, "d": 16},
            "medium": {"n": 64, "h": 4, "d": 64},
            "kernel": {"n": 512, "h": 8, "d": 64},
        },
    ),
    ("the backward rotates forward", "sign", {"sin": lambda x: -x}),
    ("the angles are those of the position before", "index", {"cos": _row_before, "sin": _row_before}),
    sites.left_out("sin", "the term with the sine is left out"),
    ("the second half is not rotated", "region", {"x_bar": _second_half_not_rotated}),
    ("the last head is not rotated", "region", {"x_bar": _one_head_not_rotated}),
    ("the frequencies are those of the next", "order", {"cos": lambda x: x.roll(-1, 1)}),
    sites.stale_row("cos", "the cosines of one position are 10 % too large"),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("x_bar"),
    sites.zero_row("x_bar"),
    sites.slight("x_bar"),
    constants=("cos", "sin"),
)
