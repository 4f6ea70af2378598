"""Normalization: RMS norm, layer norm, group norm, and division by the Euclidean norm."""

from __future__ import annotations

import jax.numpy as jnp
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
    slight,
    stale_row,
    zero_row,
)
from benchmarks.fault_benchmark.operator import ROWS, Operator

EPSILON = 1e-5
GROUPS = 4


def _rows_and_weight(rng, sizes):
    n, m = sizes["n"], sizes["m"]
    return [rng.standard_normal((n, m)), 1 + 0.2 * rng.standard_normal(m)]


def _rms_norm(x, w):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w


def _rms_norm_forward(at, x, w):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + EPSILON)
    return (x * r * w,), (x, w, r)


def _rms_norm_backward(at, saved, bars):
    (x, w, r), g = saved, at("y_bar", bars[0])
    r, normalized = at("r", r), x * r
    gw = g * at("weight in x_bar", w)
    mean = at("mean", at("summands of the mean", gw * normalized).mean(-1, keepdim=True))
    w_bar = at("rows of w_bar", g * normalized).sum(0)
    return at("x_bar", r * (gw - normalized * mean)), at("w_bar", w_bar)


def _epsilon_outside(r):
    return 1 / ((r**-2 - EPSILON).clamp(min=0).sqrt() + EPSILON)


RMS_NORM = Operator(
    "RMS norm",
    _rms_norm,
    ("x", "w"),
    _rows_and_weight,
    _rms_norm_forward,
    _rms_norm_backward,
    (
        left_out("mean", "the term with the mean is left out of x_bar"),
        last_block("summands of the mean", "the last block of columns is left out of the mean", axis=1),
        factor("mean", 0.5, "the mean divides by the size padded to twice as many columns"),
        Fault("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
        Fault("the weight is left out of x_bar", "factor", {"weight in x_bar": torch.ones_like}),
        last_block("rows of w_bar", "the last block of rows is left out of w_bar"),
        stale_row("r", "the saved root of one row is 10 % too large"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _with_bias(rng, sizes):
    return [*_rows_and_weight(rng, sizes), 0.2 * rng.standard_normal(sizes["m"])]


def _layer_norm(x, w, b):
    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered * centered).mean(-1, keepdims=True) + EPSILON) * w + b


def _layer_norm_forward(at, x, w, b):
    centered = x - x.mean(-1, keepdim=True)
    r = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPSILON)
    normalized = centered * r
    return (normalized * w + b,), (normalized, w, r)


def _layer_norm_backward(at, saved, bars):
    (normalized, w, r), (g,) = saved, bars
    r, normalized = at("r", r), at("normalized", normalized)
    gw = g * at("weight in x_bar", w)
    first = at("first mean", gw.mean(-1, keepdim=True))
    second = at("second mean", at("summands of the second mean", gw * normalized).mean(-1, keepdim=True))
    w_bar = at("rows of w_bar", g * normalized).sum(0)
    return at("x_bar", r * (gw - first - normalized * second)), at("w_bar", w_bar), at("rows of b_bar", g).sum(0)


LAYER_NORM = Operator(
    "layer norm",
    _layer_norm,
    ("x", "w", "b"),
    _with_bias,
    _layer_norm_forward,
    _layer_norm_backward,
    (
        left_out("first mean", "the mean of the cotangent is left out of x_bar"),
        left_out("second mean", "the term with the second mean is left out of x_bar"),
        last_block("summands of the second mean", "the last block of columns is left out of the mean", axis=1),
        Fault("the second mean divides by a size that is 5 % too small", "size", {"second mean": lambda x: x / 0.95}),
        Fault("the weight is left out of x_bar", "factor", {"weight in x_bar": torch.ones_like}),
        Fault("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
        last_block("rows of b_bar", "the last block of rows is left out of b_bar"),
        last_block("rows of w_bar", "the last block of rows is left out of w_bar"),
        stale_row("normalized", "one saved row is 10 % too large"),
        half("w_bar"),
        zero_row("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _images(rng, sizes):
    b, c, length = sizes["b"], sizes["c"], sizes["l"]
    return [rng.standard_normal((b, c, length)), 1 + 0.2 * rng.standard_normal(c), 0.2 * rng.standard_normal(c)]


def _group_norm(x, w, b):
    grouped = x.reshape(x.shape[0], GROUPS, -1)
    centered = grouped - grouped.mean(-1, keepdims=True)
    normalized = centered / jnp.sqrt((centered * centered).mean(-1, keepdims=True) + EPSILON)
    return normalized.reshape(x.shape) * w[:, None] + b[:, None]


def _group_norm_forward(at, x, w, b):
    grouped = x.reshape(x.shape[0], GROUPS, -1)
    centered = grouped - grouped.mean(-1, keepdim=True)
    r = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPSILON)
    normalized = centered * r
    return (normalized.reshape(x.shape) * w[:, None] + b[:, None],), (normalized, w, r)


def _group_norm_backward(at, saved, bars):
    (normalized, w, r), (g,) = saved, bars
    r, shape = at("r", r), g.shape
    gw = (g * at("weight in x_bar", w)[:, None]).reshape(normalized.shape)
    first = at("first mean", gw.mean(-1, keepdim=True))
    second = at("second mean", at("summands of the second mean", gw * normalized).mean(-1, keepdim=True))
    x_bar = (r * (gw - first - normalized * second)).reshape(shape)
    w_bar = at("batch of w_bar", g * normalized.reshape(shape)).sum((0, 2))
    return at("x_bar", x_bar), at("w_bar", w_bar), at("positions of b_bar", g).sum((0, 2))


GROUP_NORM = Operator(
    "group norm",
    _group_norm,
    ("x", "w", "b"),
    _images,
    _group_norm_forward,
    _group_norm_backward,
    (
        left_out("first mean", "the mean of the cotangent is left out of x_bar"),
        left_out("second mean", "the term with the second mean is left out of x_bar"),
        last_block("summands of the second mean", "the last block of a group is left out of the mean", axis=2),
        Fault("the second mean is that of the group before", "order", {"second mean": lambda x: x.roll(1, 1)}),
        Fault("the weight in x_bar is that of the channel before", "order", {"weight in x_bar": lambda w: w.roll(1)}),
        Fault("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
        last_block("batch of w_bar", "the last image is left out of w_bar"),
        last_block("positions of b_bar", "the last block of positions is left out of b_bar", axis=2),
        stale_row("r", "the saved roots of one image are 10 % too large"),
        half("x_bar"),
        entry("x_bar"),
        slight("x_bar"),
    ),
    {
        "small": {"b": 2, "c": 8, "l": 16},
        "medium": {"b": 4, "c": 32, "l": 128},
        "kernel": {"b": 8, "c": 64, "l": 512},
    },
)


def _l2_normalize(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) + EPSILON)


def _l2_normalize_forward(at, x):
    r = torch.rsqrt((x * x).sum(-1, keepdim=True) + EPSILON)
    y = x * r
    return (y,), (y, r)


def _l2_normalize_backward(at, saved, bars):
    (y, r), g = saved, at("y_bar", bars[0])
    r = at("r", r)
    total = at("sum", at("summands", g * y).sum(-1, keepdim=True))
    return (at("x_bar", r * (g - y * total)),)


L2_NORMALIZE = Operator(
    "L2 normalize",
    _l2_normalize,
    ("x",),
    lambda rng, sizes: [rng.standard_normal((sizes["n"], sizes["m"]))],
    _l2_normalize_forward,
    _l2_normalize_backward,
    (
        left_out("sum", "the term with the sum is left out"),
        last_block("summands", "the last block of columns is left out of the sum", axis=1),
        factor("sum", 2.0, "the term with the sum has a factor 2"),
        Fault("the sum is that of the row before", "order", {"sum": lambda x: x.roll(1, 0)}),
        Fault("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
        stale_row("r", "the saved root of one row is 10 % too large"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        doubled_tile("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)

OPERATORS = (RMS_NORM, LAYER_NORM, GROUP_NORM, L2_NORMALIZE)
