"""Reductions over rows: softmax, logsumexp, cross entropy, and the mean over the valid positions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.fault_benchmark.kinds import (
    Fault,
    doubled_tile,
    entry,
    factor,
    first_row_for_all,
    half,
    last_block,
    left_out,
    negated_column,
    shifted,
    slight,
    stale_row,
    zero_row,
)
from benchmarks.fault_benchmark.operator import ROWS, Operator

SMOOTHING = 0.1


def _logits(rng, sizes):
    return [2 * rng.standard_normal((sizes["n"], sizes["m"]))]


def _softmax_backward(at, saved, bars):
    y, g = at("y", saved[0]), at("y_bar", bars[0])
    total = at("sum", at("summands", g * y).sum(-1, keepdim=True))
    return (at("x_bar", y * (g - total)),)


def _softmax_forward(at, x):
    y = torch.softmax(x, -1)
    return (y,), (y,)


SOFTMAX = Operator(
    "softmax",
    lambda x: jax.nn.softmax(x, axis=-1),
    ("x",),
    _logits,
    _softmax_forward,
    _softmax_backward,
    (
        left_out("sum", "the term with the sum is left out"),
        last_block("summands", "the last block of columns is left out of the sum", axis=1),
        Fault("the sum is that of the row before", "order", {"sum": lambda x: x.roll(1, 0)}),
        factor("sum", 0.5, "a factor 2 is missing in the sum"),
        stale_row("y", "the normalizer of one row is that of the block before: its y is 10 % too large"),
        Fault("the last column of y is masked", "mask", {"y": lambda y: torch.cat([y[:, :-1], 0 * y[:, -1:]], 1)}),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        doubled_tile("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _logsumexp_forward(at, x):
    y = torch.logsumexp(x, -1)
    return (y,), (x, y)


def _logsumexp_backward(at, saved, bars):
    (x, y), g = saved, at("y_bar", bars[0])
    p = at("softmax", torch.exp(x - at("y", y)[:, None]), x)
    return (at("x_bar", g[:, None] * p),)


def _last_block_masked(y):
    return torch.cat([y[..., : -max(1, y.shape[-1] // 8)], torch.zeros_like(y[..., -max(1, y.shape[-1] // 8) :])], -1)


LOGSUMEXP = Operator(
    "logsumexp",
    lambda x: jax.nn.logsumexp(x, axis=-1),
    ("x",),
    _logits,
    _logsumexp_forward,
    _logsumexp_backward,
    (
        Fault("y is that of the row before", "order", {"y": lambda y: y.roll(1)}),
        Fault("y is stale by 0.1 in every row", "stale", {"y": lambda y: y + 0.1}),
        Fault("the softmax is that over the columns", "size", {"softmax": lambda p, x: torch.softmax(x, 0)}),
        Fault("the last block of columns is masked", "mask", {"softmax": lambda p, x: _last_block_masked(p)}),
        stale_row("softmax", "the normalizer of one row is that of the block before: its softmax is 10 % too large"),
        first_row_for_all("y_bar"),
        shifted("y_bar", "y_bar is that of the row before"),
        half("x_bar"),
        entry("x_bar"),
        doubled_tile("x_bar"),
        zero_row("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _logits_and_labels(rng, sizes):
    return [*_logits(rng, sizes), rng.integers(0, sizes["m"], sizes["n"])]


def _cross_entropy(x, labels):
    log_p = jax.nn.log_softmax(x, axis=-1)
    return -(1 - SMOOTHING) * log_p[jnp.arange(x.shape[0]), labels] - SMOOTHING * log_p.mean(-1)


def _cross_entropy_forward(at, x, labels):
    lse = torch.logsumexp(x, -1)
    chosen = x.gather(1, labels[:, None])[:, 0]
    return (lse - (1 - SMOOTHING) * chosen - SMOOTHING * x.mean(-1),), (x, labels, lse)


def _cross_entropy_backward(at, saved, bars):
    (x, labels, lse), g = saved, at("loss_bar", bars[0])
    p = at("softmax", torch.exp(x - at("lse", lse)[:, None]))
    one_hot = at("one-hot", torch.nn.functional.one_hot(labels, x.shape[1]).to(x.dtype))
    target = at("label term", (1 - SMOOTHING) * one_hot) + at("smoothing", torch.full_like(p, SMOOTHING / x.shape[1]))
    return (at("x_bar", g[:, None] * (p - target)),)


CROSS_ENTROPY = Operator(
    "cross entropy with label smoothing",
    _cross_entropy,
    ("x", "labels"),
    _logits_and_labels,
    _cross_entropy_forward,
    _cross_entropy_backward,
    (
        first_row_for_all("loss_bar"),
        left_out("label term", "the term with the label is left out"),
        left_out("smoothing", "the term with the smoothing is left out"),
        shifted("one-hot", "the label is one too large", axis=1),
        Fault("the label's weight is 1 in spite of smoothing", "factor", {"label term": lambda t: t / (1 - SMOOTHING)}),
        Fault("the saved logsumexp is stale by 0.1 in every row", "stale", {"lse": lambda lse: lse + 0.1}),
        Fault("the last block of columns is masked", "mask", {"softmax": _last_block_masked}),
        stale_row("softmax", "the normalizer of one row is that of the block before: its softmax is 10 % too large"),
        half("x_bar"),
        zero_row("x_bar"),
        entry("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
    constants=("labels",),
)


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


MASKED_MEAN = Operator(
    "mean over valid positions",
    _masked_mean,
    ("x", "mask"),
    _sequences_with_mask,
    _masked_mean_forward,
    _masked_mean_backward,
    (
        Fault("the mask leaves out the last valid position", "mask", {"weights": _last_valid_left_out}),
        Fault("the mean divides by all positions", "size", {"weights": lambda w: (w > 0).to(w.dtype) / w.shape[1]}),
        Fault("the mask is left out", "mask", {"weights": lambda w: w.amax(1, keepdim=True).expand_as(w)}),
        Fault("the weights are those of the sequence before", "order", {"weights": lambda w: w.roll(1, 0)}),
        Fault(
            "the mask begins one position late", "mask", {"weights": lambda w: torch.cat([0 * w[:, :1], w[:, 1:]], 1)}
        ),
        stale_row("weights", "the number of valid positions of one sequence is 10 % too small"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        zero_row("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    {
        "small": {"b": 4, "n": 8, "d": 16},
        "medium": {"b": 8, "n": 64, "d": 64},
        "kernel": {"b": 8, "n": 512, "d": 128},
    },
    constants=("mask",),
)

OPERATORS = (SOFTMAX, LOGSUMEXP, CROSS_ENTROPY, MASKED_MEAN)
