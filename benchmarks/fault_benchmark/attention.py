"""Attention: attn with its tanh, softmax attention, and linear attention with a decay."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

import jax_ref
from benchmarks.fault_benchmark.kinds import (
    Fault,
    doubled_tile,
    entry,
    factor,
    half,
    ignored,
    last_block,
    last_one,
    left_out,
    negated_column,
    shifted,
    slight,
    stale_row,
    zero_row,
)
from benchmarks.fault_benchmark.operator import Operator

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


ATTN = Operator(
    "attn",
    jax_ref.attn_primal,
    ("q", "k", "v"),
    _queries_keys_values,
    _attn_forward,
    _attn_backward,
    (  # those of `benchmarks/faults.py`, by the same names
        entry("k_bar"),
        zero_row("q_bar"),
        doubled_tile("k_bar"),
        half("q_bar"),
        Fault("D = 1 - A, a factor 1 + A is missing", "factor", {"D": lambda D, A: 1 - A}),
        Fault("D = 0 near saturation, for |A| > 0.9", "formula", {"D": lambda D, A: D * (A.abs() < 0.9)}),
        Fault("D rounded to 20 bits", "slight", {"D": _rounded_to_20_bits}),
        last_one("queries of v_bar", "the last query is left out of v_bar"),
        ignored("attn_bar"),
        Fault("attn_bar is transposed", "order", {"attn_bar": lambda x: x.T}),
        negated_column("k_bar"),
        slight("v_bar"),
    ),
    SIZES,
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


SOFTMAX_ATTENTION = Operator(
    "softmax attention",
    _softmax_attention,
    ("q", "k", "v"),
    _large_queries,
    _softmax_attention_forward,
    _softmax_attention_backward,
    (
        left_out("delta", "the term with delta, the sum over a row, is left out"),
        last_block("summands of delta", "the last block of keys is left out of delta", axis=1),
        Fault("the causal mask leaves out the diagonal in the backward", "mask", {"P": lambda P: P.tril(-1)}),
        Fault("the scale is that of a head size padded by 16", "size", {"scale": lambda s: s * (64 / 80) ** 0.5}),
        stale_row("P", "the normalizer of one row is that of the block before: its P is 10 % too large"),
        last_one("queries of v_bar", "the last query is left out of v_bar"),
        last_block("queries of k_bar", "the last block of queries is left out of k_bar"),
        half("q_bar"),
        factor("q_bar", 5.0, "q_bar is 5 times too large"),
        entry("k_bar"),
        doubled_tile("q_bar"),
        slight("v_bar"),
    ),
    SIZES,
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


RETENTION = Operator(
    "linear attention with decay",
    _retention,
    ("q", "k", "v"),
    _queries_keys_values,
    _retention_forward,
    _retention_backward,
    (
        Fault("the state of the block before is left out of k_bar", "term", {"S_bar of k_bar": _within_blocks}),
        factor("weights", DECAY, "the decay has one step too many in the backward"),
        factor("weights of v_bar", 1 / DECAY, "the decay has one step too few in v_bar"),
        Fault("the causal mask leaves out the diagonal in the backward", "mask", {"weights": lambda w: w.tril(-1)}),
        Fault("the decay is left out of v_bar", "factor", {"weights of v_bar": lambda w: (w > 0).to(w.dtype)}),
        last_one("queries of v_bar", "the last query is left out of v_bar"),
        shifted("q_bar", "q_bar is that of the query before"),
        half("k_bar"),
        entry("k_bar"),
        doubled_tile("q_bar"),
        negated_column("v_bar"),
        slight("q_bar"),
    ),
    SIZES,
)

OPERATORS = (ATTN, SOFTMAX_ATTENTION, RETENTION)
