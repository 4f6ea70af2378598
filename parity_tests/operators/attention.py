"""Attention: attn, softmax attention, retention, and attention with a mask and the logarithm of its normalizer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

import jax_ref
from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function

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


SIZES = {"small": {"n": 64, "d": 64}, "medium": {"n": 256, "d": 64}, "kernel": {"n": 1024, "d": 64}}
DECAY = 0.95


def _queries_keys_values(rng, sizes):
    shape = sizes["n"], sizes["d"]
    scales = sizes["d"] ** -0.25, sizes["d"] ** -0.25, 1.0
    return [scale * rng.standard_normal(shape) for scale in scales]


def _attn_forward(at, q, k, v):
    A = torch.tanh(q @ k.T)
    return (A @ v, A), (q, k, v, A)


def _attn_backward(at, saved, bars):
    (q, k, v, A), (output_bar, attn_bar) = saved, bars
    D = at("D", 1 - A * A, A)
    P = D * (at("attn_bar", attn_bar) + output_bar @ v.T)
    v_bar = at("queries of v_bar", A).T @ output_bar
    return at("q_bar", P @ k), at("k_bar", P.T @ q), at("v_bar", v_bar)


def _rounded_to_20_bits(D, A):
    return ((D.double() * 2**20).round() / 2**20).to(D.dtype)  # in float64, since 2^20 is infinite in float16


attn = by_formulas(
    jax_ref.attn_primal,
    Formulas("attn", _queries_keys_values, _attn_forward, _attn_backward, SIZES),
    # those that `benchmarks/faults.py` plants in both frameworks
    sites.entry("k_bar"),
    sites.zero_row("q_bar"),
    sites.doubled_tile("k_bar"),
    sites.half("q_bar"),
    ("D = 1 - A, a factor 1 + A is missing", "factor", {"D": lambda D, A: 1 - A}),
    ("D = 0 near saturation, for |A| > 0.9", "formula", {"D": lambda D, A: D * (A.abs() < 0.9)}),
    ("D rounded to 20 bits", "slight", {"D": _rounded_to_20_bits}),
    sites.last_one("queries of v_bar", "the last query is left out of v_bar"),
    sites.ignored("attn_bar"),
    ("attn_bar is transposed", "order", {"attn_bar": lambda x: x.T}),
    sites.negated_column("k_bar"),
    sites.slight("v_bar"),
)


def _allowed(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def _softmax_attention(q, k, v):
    allowed = jnp.tril(jnp.ones((q.shape[0], k.shape[0]), bool))
    return jax.nn.softmax(jnp.where(allowed, q @ k.T * q.shape[1] ** -0.5, -jnp.inf), axis=-1) @ v


def _softmax_attention_forward(at, q, k, v):
    scores = (q @ k.T * q.shape[1] ** -0.5).masked_fill(~_allowed(len(q)), -torch.inf)
    P = torch.softmax(scores, -1)
    return (P @ v,), (q, k, v, P)


def _softmax_attention_backward(at, saved, bars):
    (q, k, v, P), (output_bar,) = saved, bars
    P, scale = at("P", P), q.shape[1] ** -0.5
    dP = output_bar @ v.T
    delta = at("delta", at("summands of delta", P * dP).sum(-1, keepdim=True))
    S_bar = P * (dP - delta) * at("scale", torch.tensor(scale, dtype=q.dtype))
    v_bar = at("queries of v_bar", P).T @ output_bar
    return at("q_bar", S_bar @ k), at("k_bar", at("queries of k_bar", S_bar).T @ q), at("v_bar", v_bar)


def _large_queries(rng, sizes):
    q, k, v = _queries_keys_values(rng, sizes)
    return [sizes["d"] ** 0.5 * q, k, v]  # the scale takes this factor away again


softmax_attention = by_formulas(
    _softmax_attention,
    Formulas("softmax attention", _large_queries, _softmax_attention_forward, _softmax_attention_backward, SIZES),
    sites.left_out("delta", "the term with delta, the sum over a row, is left out"),
    sites.last_block("summands of delta", "the last block of keys is left out of delta", axis=1),
    ("the causal mask leaves out the diagonal in the backward", "mask", {"P": lambda P: P.tril(-1)}),
    ("the scale is that of a head size padded by 16", "size", {"scale": lambda s: s * (64 / 80) ** 0.5}),
    sites.stale_row("P", "the normalizer of one row is that of the block before: its P is 10 % too large"),
    sites.last_one("queries of v_bar", "the last query is left out of v_bar"),
    sites.last_block("queries of k_bar", "the last block of queries is left out of k_bar"),
    sites.half("q_bar"),
    sites.factor("q_bar", 5.0, "q_bar is 5 times too large"),
    sites.entry("k_bar"),
    sites.doubled_tile("q_bar"),
    sites.slight("v_bar"),
)


def _weights(n: int, dtype: torch.dtype) -> torch.Tensor:
    steps = torch.arange(n)
    return (DECAY ** (steps[:, None] - steps[None]).clamp(min=0).double()).tril().to(dtype)


def _retention(q, k, v):
    steps = jnp.arange(q.shape[0])
    weights = jnp.where(steps[:, None] >= steps, DECAY ** jnp.maximum(steps[:, None] - steps, 0), 0.0)
    return (q @ k.T * weights.astype(q.dtype)) @ v


def _retention_forward(at, q, k, v):
    weights = _weights(len(q), q.dtype)
    return ((q @ k.T * weights) @ v,), (q, k, v, weights)


def _retention_backward(at, saved, bars):
    (q, k, v, weights), (output_bar,) = saved, bars
    weights = at("weights", weights)
    S_bar = output_bar @ v.T * weights
    A = q @ k.T * at("weights of v_bar", weights)
    v_bar = at("queries of v_bar", A).T @ output_bar
    return at("q_bar", S_bar @ k), at("k_bar", at("S_bar of k_bar", S_bar).T @ q), at("v_bar", v_bar)


def _within_blocks(x: torch.Tensor) -> torch.Tensor:
    block = torch.arange(len(x)) // (len(x) // 2)
    return torch.where(block[:, None] == block, x, torch.zeros_like(x))


retention = by_formulas(
    _retention,
    Formulas("linear attention with decay", _queries_keys_values, _retention_forward, _retention_backward, SIZES),
    ("the state of the block before is left out of k_bar", "term", {"S_bar of k_bar": _within_blocks}),
    sites.factor("weights", DECAY, "the decay has one step too many in the backward"),
    sites.factor("weights of v_bar", 1 / DECAY, "the decay has one step too few in v_bar"),
    ("the causal mask leaves out the diagonal in the backward", "mask", {"weights": lambda w: w.tril(-1)}),
    ("the decay is left out of v_bar", "factor", {"weights of v_bar": lambda w: (w > 0).to(w.dtype)}),
    sites.last_one("queries of v_bar", "the last query is left out of v_bar"),
    sites.shifted("q_bar", "q_bar is that of the query before"),
    sites.half("k_bar"),
    sites.entry("k_bar"),
    sites.doubled_tile("q_bar"),
    sites.negated_column("v_bar"),
    sites.slight("q_bar"),
)
