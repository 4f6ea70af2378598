"""Products: a linear layer with bias, and convolutions."""

from __future__ import annotations

import jax
import torch

from benchmarks.fault_benchmark.kinds import (
    Fault,
    doubled_tile,
    entry,
    factor,
    first_row_for_all,
    half,
    last_block,
    last_one,
    negated_column,
    shifted,
    slight,
    zero_row,
)
from benchmarks.fault_benchmark.operator import Operator


def _layer(rng, sizes):
    n, k, m = sizes["n"], sizes["k"], sizes["m"]
    return [rng.standard_normal((n, k)), k**-0.5 * rng.standard_normal((m, k)), 0.2 * rng.standard_normal(m)]


def _linear_forward(at, x, w, b):
    return (x @ w.T + b,), (x, w)


def _linear_backward(at, saved, bars):
    (x, w), g = saved, at("y_bar", bars[0])
    x_bar = at("columns of x_bar", g) @ w
    w_bar = at("rows of w_bar", g).T @ at("x", x)
    return at("x_bar", x_bar), at("w_bar", w_bar), at("b_bar", at("rows of b_bar", g).sum(0))


LINEAR = Operator(
    "matmul and bias",
    lambda x, w, b: x @ w.T + b,
    ("x", "w", "b"),
    _layer,
    _linear_forward,
    _linear_backward,
    (
        last_one("rows of w_bar", "the last row is left out of w_bar"),
        last_block("rows of b_bar", "the last block of rows is left out of b_bar"),
        last_block("columns of x_bar", "the last block of columns is left out of x_bar", axis=1),
        Fault("b_bar is a mean over rows", "size", {"b_bar": lambda b: b / 8}),
        shifted("x", "w_bar has each row of x with the cotangent of the next row"),
        first_row_for_all("y_bar"),
        half("w_bar"),
        zero_row("x_bar"),
        entry("w_bar"),
        doubled_tile("x_bar"),
        negated_column("w_bar"),
        slight("w_bar"),
    ),
    {
        "small": {"n": 8, "k": 16, "m": 12},
        "medium": {"n": 64, "k": 128, "m": 96},
        "kernel": {"n": 512, "k": 512, "m": 512},
    },
)

_WIDTH = 3


def _signals(rng, sizes):
    b, c, o, length = sizes["b"], sizes["c"], sizes["o"], sizes["l"]
    w = (c * _WIDTH) ** -0.5 * rng.standard_normal((o, c, _WIDTH))
    return [rng.standard_normal((b, c, length)), w, 0.2 * rng.standard_normal(o)]


def _conv(x, w, b):
    return jax.lax.conv_general_dilated(x, w, (1,), [(1, 1)]) + b[:, None]


def _conv_forward(at, x, w, b):
    return (torch.nn.functional.conv1d(x, w, padding=1) + b[:, None],), (x, w)


def _conv_backward(at, saved, bars):
    (x, w), g = saved, at("y_bar", bars[0])
    x_bar = torch.nn.functional.conv_transpose1d(g, at("w", w), padding=1)
    padded = at("padded x", torch.nn.functional.pad(x, (1, 1)))
    taps = [
        torch.einsum("bol,bcl->oc", at("batch of w_bar", g), padded[..., i : i + g.shape[-1]]) for i in range(_WIDTH)
    ]
    return at("x_bar", x_bar), at("w_bar", torch.stack(taps, -1)), at("positions of b_bar", g).sum((0, 2))


def _ends_left_out(x):
    return torch.cat([0 * x[..., :1], x[..., 1:-1], 0 * x[..., -1:]], -1)


def _last_position_zero(x):
    return torch.cat([x[..., :-2], 0 * x[..., -2:]], -1)


CONV = Operator(
    "convolution",
    _conv,
    ("x", "w", "b"),
    _signals,
    _conv_forward,
    _conv_backward,
    (
        Fault("the filter is not flipped in x_bar", "order", {"w": lambda w: w.flip(-1)}),
        Fault("the padding of x is one too large on the left", "index", {"padded x": lambda x: x.roll(1, -1)}),
        Fault("the first and last position of x_bar are left out", "mask", {"x_bar": _ends_left_out}),
        Fault("the last position of x is taken to be padding", "mask", {"padded x": _last_position_zero}),
        last_one("batch of w_bar", "the last example is left out of w_bar"),
        last_block("positions of b_bar", "the last block of positions is left out of b_bar", axis=2),
        factor("w_bar", 0.25, "w_bar is a mean over four examples"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("w_bar"),
        doubled_tile("x_bar"),
        slight("w_bar"),
    ),
    {
        "small": {"b": 2, "c": 4, "o": 6, "l": 16},
        "medium": {"b": 4, "c": 32, "o": 32, "l": 64},
        "kernel": {"b": 8, "c": 64, "o": 64, "l": 512},
    },
)


def _depthwise(rng, sizes):
    b, c, length = sizes["b"], sizes["c"], sizes["l"]
    return [rng.standard_normal((b, c, length)), 0.5 * rng.standard_normal((c, 4)), 0.2 * rng.standard_normal(c)]


def _causal_conv(x, w, b):
    return jax.lax.conv_general_dilated(x, w[:, None], (1,), [(3, 0)], feature_group_count=x.shape[1]) + b[:, None]


def _causal_conv_forward(at, x, w, b):
    padded = torch.nn.functional.pad(x, (3, 0))
    y = sum(padded[..., i : i + x.shape[-1]] * w[:, i : i + 1] for i in range(4))
    return (y + b[:, None],), (padded, w)


def _causal_conv_backward(at, saved, bars):
    (padded, w), g = saved, at("y_bar", bars[0])
    padded, length = at("padded x", padded), g.shape[-1]
    w_bar = torch.stack([(at("positions of w_bar", g) * padded[..., i : i + length]).sum((0, 2)) for i in range(4)], -1)
    ahead, taps = torch.nn.functional.pad(g, (0, 3)), at("w", w)
    x_bar = sum(ahead[..., 3 - i : 3 - i + length] * taps[:, i : i + 1] for i in range(4))
    return at("x_bar", x_bar), at("w_bar", w_bar), at("b_bar", g.sum((0, 2)))


def _first_positions_left_out(x):
    return torch.cat([0 * x[..., :3], x[..., 3:]], -1)


CAUSAL_CONV = Operator(
    "causal depthwise convolution",
    _causal_conv,
    ("x", "w", "b"),
    _depthwise,
    _causal_conv_forward,
    _causal_conv_backward,
    (
        Fault("the filter is flipped in x_bar", "order", {"w": lambda w: w.flip(-1)}),
        Fault("the last tap is left out of x_bar", "term", {"w": lambda w: torch.cat([w[:, :-1], 0 * w[:, -1:]], 1)}),
        Fault("the padding of x is one too large", "index", {"padded x": lambda x: x.roll(1, -1)}),
        Fault("x_bar is zero at the first three positions", "mask", {"x_bar": _first_positions_left_out}),
        last_block("positions of w_bar", "the last block of positions is left out of w_bar", axis=2),
        last_one("positions of w_bar", "the last example is left out of w_bar"),
        first_row_for_all("y_bar"),
        half("b_bar"),
        entry("w_bar"),
        zero_row("x_bar"),
        negated_column("w_bar"),
        slight("x_bar"),
    ),
    {
        "small": {"b": 2, "c": 8, "l": 16},
        "medium": {"b": 4, "c": 32, "l": 128},
        "kernel": {"b": 8, "c": 128, "l": 512},
    },
)

OPERATORS = (LINEAR, CONV, CAUSAL_CONV)
