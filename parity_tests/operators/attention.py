"""Attention with a mask, which also returns the logarithm of its normalizer, as fused kernels do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

FAR = -8192.0  # instead of -∞, so that a row without any key still has a value; every format has it


def _attention(q, k, v, mask):
    s = jnp.where(mask > 0, q @ k.T, FAR)
    return jax.nn.softmax(s, axis=-1) @ v, jax.nn.logsumexp(s, axis=-1)


def _scores(q, k, mask):
    return torch.where(mask > 0, q @ k.mT, FAR)


def _attention_torch(q, k, v, mask):
    s = _scores(q, k, mask)
    shift = s.detach().amax(-1, keepdim=True)
    p = torch.exp(s - shift)
    total = p.sum(-1, keepdim=True)
    return (p / total) @ v, (total.log() + shift).squeeze(-1)


def _backward(q, k, v, mask, o_bar, lse_bar, masked=True, delta=True, detached=False, of_lse=1.0):
    s = _scores(q, k, mask)
    p = torch.softmax(s, -1)
    p = p.detach() if detached else p
    g = o_bar @ v.mT
    if delta:
        g = g - (p * g).sum(-1, keepdim=True)
    s_bar = p * (g + of_lse * lse_bar[:, None])
    if masked:
        s_bar = s_bar * (mask > 0)
    return s_bar @ k, s_bar.mT @ q, p.mT @ o_bar, None


def _with(**options):
    return function(_attention_torch, lambda *args: _backward(*args, **options))


def _undefined_or(q, k, v, mask, o_bar, lse_bar):
    """Returns early unless both cotangents are there."""
    if any(w.numel() and not w.any() for w in (o_bar, lse_bar)):
        return (None,) * 4
    return _backward(q, k, v, mask, o_bar, lse_bar)


def _either(q, k, v, mask, o_bar, lse_bar):
    """Takes one of the cotangents, the first that is not zero."""
    return _backward(q, k, v, mask, o_bar, torch.zeros_like(lse_bar) if o_bar.any() else lse_bar)


class _Unmaterialized(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, mask)
        return _attention_torch(q, k, v, mask)

    @staticmethod
    def backward(ctx, *output_bars):
        return _backward(*ctx.saved_tensors, *output_bars)


attention = Operator(
    OpSpec(
        "attention",
        _attention,
        "(n,d),(m,d),(m,e),(n,m)->(n,e),(n)",
        domains={"mask": integer(0, 2)},
        output_names=("output", "lse"),
    ),
    _attention_torch,
    {
        "lse_bar_dropped": Mistake(_with(of_lse=0.0), "vjp", passes=("forward",)),
        "lse_bar_subtracted": Mistake(_with(of_lse=-1.0), "vjp", passes=("forward",)),
        "delta_missing": Mistake(_with(delta=False), "vjp", passes=("forward",)),
        "mask_missing_in_the_backward": Mistake(_with(masked=False), "vjp", passes=("forward",)),
        "probabilities_detached": Mistake(_with(detached=True), "vjp_of_vjp", passes=("vjp",)),
        "both_or_nothing": Mistake(function(_attention_torch, _undefined_or), "vjp_partial", passes=("vjp",)),
        "one_of_the_cotangents": Mistake(function(_attention_torch, _either), "vjp"),
        "undefined_cotangent_dereferenced": Mistake(_Unmaterialized.apply, "vjp_partial", passes=("vjp",)),
        "mask_inverted": Mistake(lambda q, k, v, mask: _attention_torch(q, k, v, 1 - mask), "forward"),
        "causal_besides": Mistake(lambda q, k, v, mask: _attention_torch(q, k, v, mask.tril()), "forward"),
    },
)
