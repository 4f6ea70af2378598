"""Layers as people write them: activations with parameters, norms, rotary embedding, attention with its logsumexp."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import torch
from jax import lax
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function, saving

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

# rms_norm


def _rms_norm(x, g):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * g


def _rms_norm_torch(x, g):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g


def _rms_norm_backward(x, g, w, r=None):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) if r is None else r
    n = w * g
    return r * (n - x * r * r * (n * x).mean(-1, keepdim=True)), (w * x * r).sum(0)


def _rms_norm_saved(x, g):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
    return x * r * g, (x, g, r)


rms_norm_of_rows = Operator(
    OpSpec("rms_norm_of_rows", _rms_norm, "(n,d),(d)->(n,d)"),
    _rms_norm_torch,
    {
        "norm_is_a_constant": Mistake(
            function(
                _rms_norm_torch,
                lambda x, g, w: (
                    w * g * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5),
                    _rms_norm_backward(x, g, w)[1],
                ),
            ),
            "vjp",
        ),
        "saved_rsqrt": Mistake(
            saving(_rms_norm_saved, lambda x, g, r, w: _rms_norm_backward(x, g, w, r)), "vjp_of_vjp", passes=("vjp",)
        ),
        "sum_for_mean": Mistake(
            function(
                _rms_norm_torch,
                lambda x, g, w: (
                    _rms_norm_backward(x, g, w)[0],
                    (w * x).sum(0) * torch.rsqrt((x * x).mean() + 1e-5),
                ),
            ),
            "vjp",
            passes=("forward",),
        ),
        "gain_in_low_precision": Mistake(
            function(
                _rms_norm_torch,
                lambda x, g, w: (
                    _rms_norm_backward(x, g, w)[0],
                    _rms_norm_backward(x, g, w)[1].bfloat16().to(x.dtype),
                ),
            ),
            "vjp",
            "float32",
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
