"""Activations and elementwise operators: SwiGLU, GELU, SiLU, softplus, soft cap, dropout, rotary embedding."""

from __future__ import annotations

import math

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
    left_out,
    negated_column,
    shifted,
    sign,
    slight,
    stale_row,
    zero_row,
)
from benchmarks.fault_benchmark.operator import ROWS, Operator

CAP = 5.0
KEPT = 0.75  # the probability that dropout keeps an entry
_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _rows(count: int, scale: float = 1.0):
    def draw(rng, sizes):
        return [scale * rng.standard_normal((sizes["n"], sizes["m"])) for _ in range(count)]

    return draw


def _swiglu_forward(at, a, b):
    return (a * torch.sigmoid(a) * b,), (a, b)


def _swiglu_backward(at, saved, bars):
    (a, b), g = saved, at("y_bar", bars[0])
    s = at("sigmoid", torch.sigmoid(a), a)
    slope = s + at("second term", a * s * (1 - s))
    return at("a_bar", g * at("b in a_bar", b) * slope), at("b_bar", g * a * at("sigmoid of b_bar", s))


SWIGLU = Operator(
    "SwiGLU",
    lambda a, b: jax.nn.silu(a) * b,
    ("a", "b"),
    _rows(2),
    _swiglu_forward,
    _swiglu_backward,
    (
        left_out("second term", "the term with the derivative of the sigmoid is left out of a_bar"),
        sign("second term"),
        Fault("b is left out of a_bar", "factor", {"b in a_bar": torch.ones_like}),
        shifted("b in a_bar", "b in a_bar is that of the column before", axis=1),
        Fault("the sigmoid is left out of b_bar", "factor", {"sigmoid of b_bar": torch.ones_like}),
        Fault(
            "the sigmoid is that of a scaled by 1.702", "formula", {"sigmoid": lambda s, a: torch.sigmoid(1.702 * a)}
        ),
        first_row_for_all("y_bar"),
        half("a_bar"),
        entry("b_bar"),
        doubled_tile("a_bar"),
        zero_row("b_bar"),
        slight("a_bar"),
    ),
    ROWS,
)


def _tanh_of_gelu(x):
    return torch.tanh(_ROOT * (x + _CUBIC * x * x * x))


def _gelu_forward(at, x):
    return (0.5 * x * (1 + _tanh_of_gelu(x)),), (x,)


def _gelu_backward(at, saved, bars):
    (x,), g = saved, at("y_bar", bars[0])
    t = at("t", _tanh_of_gelu(x))
    inner = at("inner", _ROOT * (1 + 3 * _CUBIC * x * x), x)
    slope = 0.5 * (1 + t) + at("second term", 0.5 * x * (1 - t * t) * inner)
    return (at("x_bar", g * at("slope", slope, x)),)


def _slope_of_exact_gelu(slope, x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


GELU = Operator(
    "GELU, by tanh",
    lambda x: jax.nn.gelu(x, approximate=True),
    ("x",),
    _rows(1),
    _gelu_forward,
    _gelu_backward,
    (
        left_out("second term", "the term with the derivative of the tanh is left out"),
        Fault("the derivative is that of the exact GELU", "formula", {"slope": _slope_of_exact_gelu}),
        Fault(
            "the factor 3 of the cubic term is missing", "factor", {"inner": lambda i, x: _ROOT * (1 + _CUBIC * x * x)}
        ),
        Fault("the cubic term is left out of the slope", "term", {"inner": lambda i, x: torch.full_like(i, _ROOT)}),
        stale_row("t", "the tanh of one row is 10 % too large"),
        Fault(
            "the derivative is 0 for x < -2",
            "formula",
            {"slope": lambda s, x: torch.where(x < -2, torch.zeros_like(s), s)},
        ),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        doubled_tile("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _silu_forward(at, x):
    return (x * torch.sigmoid(x),), (x,)


def _silu_backward(at, saved, bars):
    (x,), g = saved, at("y_bar", bars[0])
    s = at("sigmoid", torch.sigmoid(x), x)
    return (at("x_bar", at("slope", s + at("second term", x * s * (1 - s)), x) * g),)


SILU = Operator(
    "SiLU",
    lambda x: jax.nn.silu(x),
    ("x",),
    _rows(1, 2.0),
    _silu_forward,
    _silu_backward,
    (
        left_out("second term", "the term with the derivative of the sigmoid is left out"),
        sign("second term"),
        Fault(
            "the sigmoid is that of a scaled by 1.702", "formula", {"sigmoid": lambda s, x: torch.sigmoid(1.702 * x)}
        ),
        Fault("the slope is at most 1", "formula", {"slope": lambda s, x: s.clamp(max=1.0)}),
        Fault(
            "the derivative is 0 for x < -4",
            "formula",
            {"slope": lambda s, x: torch.where(x < -4, torch.zeros_like(s), s)},
        ),
        stale_row("sigmoid", "the sigmoid of one row is 10 % too large"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        zero_row("x_bar"),
        doubled_tile("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _softplus_forward(at, x):
    return (torch.logaddexp(x, torch.zeros_like(x)),), (x,)


def _softplus_backward(at, saved, bars):
    (x,), g = saved, at("y_bar", bars[0])
    return (at("x_bar", g * at("slope", torch.sigmoid(x), x)),)


SOFTPLUS = Operator(
    "softplus",
    lambda x: jax.nn.softplus(x),
    ("x",),
    _rows(1, 3.0),
    _softplus_forward,
    _softplus_backward,
    (
        Fault("the slope is 1 for x > 3", "formula", {"slope": lambda s, x: torch.where(x > 3, torch.ones_like(s), s)}),
        Fault(
            "the slope is 0 for x < -3", "formula", {"slope": lambda s, x: torch.where(x < -3, torch.zeros_like(s), s)}
        ),
        Fault("the slope is that of a scaled by 2", "formula", {"slope": lambda s, x: torch.sigmoid(2 * x)}),
        Fault("the slope is that of -x", "sign", {"slope": lambda s, x: torch.sigmoid(-x)}),
        stale_row("slope", "the slope of one row is 10 % too large"),
        shifted("y_bar", "y_bar is that of the column before", axis=1),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        doubled_tile("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _soft_cap_forward(at, x):
    t = torch.tanh(x / CAP)
    return (CAP * t,), (t,)


def _soft_cap_backward(at, saved, bars):
    (t,), g = saved, at("y_bar", bars[0])
    return (at("x_bar", g * at("slope", 1 - t * t, t)),)


SOFT_CAP = Operator(
    "soft cap of logits",
    lambda x: CAP * jnp.tanh(x / CAP),
    ("x",),
    _rows(1, 4.0),
    _soft_cap_forward,
    _soft_cap_backward,
    (
        Fault("the slope is 1 - t, a factor 1 + t is missing", "factor", {"slope": lambda s, t: 1 - t}),
        Fault("the slope is 0 near saturation, for |t| > 0.9", "formula", {"slope": lambda s, t: s * (t.abs() < 0.9)}),
        factor("slope", 1 / CAP, "the slope is divided by the cap"),
        Fault("the slope is that without a cap", "formula", {"slope": lambda s, t: torch.ones_like(s)}),
        stale_row("slope", "the slope of one row is 10 % too large"),
        shifted("y_bar", "y_bar is that of the row before"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        doubled_tile("x_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    ROWS,
)


def _with_mask(rng, sizes):
    shape = sizes["n"], sizes["m"]
    return [rng.standard_normal(shape), rng.standard_normal(shape), (rng.random(shape) < KEPT).astype(np.float64)]


def _dropout_forward(at, x, residual, mask):
    return (residual + x * (mask * (1 / KEPT)),), (mask,)


def _dropout_backward(at, saved, bars):
    (mask,), (g,) = saved, bars
    factors = at("scale", at("mask", mask) * (1 / KEPT))
    return at("x_bar", at("y_bar", g) * factors), at("residual_bar", g, mask)


DROPOUT = Operator(
    "dropout with a given mask, added",
    lambda x, residual, mask: residual + x * mask / KEPT,
    ("x", "residual", "mask"),
    _with_mask,
    _dropout_forward,
    _dropout_backward,
    (
        factor("scale", KEPT, "the division by the probability is missing in x_bar"),
        Fault("the mask is inverted", "mask", {"mask": lambda m: 1 - m}),
        Fault("the mask is left out of x_bar", "mask", {"mask": torch.ones_like}),
        shifted("mask", "the mask is that of the column before", axis=1),
        Fault("the mask is applied to residual_bar, too", "mask", {"residual_bar": lambda g, mask: g * mask}),
        left_out("residual_bar", "residual_bar is zero"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("residual_bar"),
        doubled_tile("x_bar"),
        zero_row("residual_bar"),
        slight("x_bar"),
    ),
    ROWS,
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


ROTARY = Operator(
    "rotary embedding",
    _rotary,
    ("x", "cos", "sin"),
    _with_angles,
    _rotary_forward,
    _rotary_backward,
    (
        Fault("the backward rotates forward", "sign", {"sin": lambda x: -x}),
        Fault("the angles are those of the position before", "index", {"cos": _row_before, "sin": _row_before}),
        left_out("sin", "the term with the sine is left out"),
        Fault("the second half is not rotated", "region", {"x_bar": _second_half_not_rotated}),
        Fault("the last head is not rotated", "region", {"x_bar": _one_head_not_rotated}),
        Fault("the frequencies are those of the next", "order", {"cos": lambda x: x.roll(-1, 1)}),
        stale_row("cos", "the cosines of one position are 10 % too large"),
        first_row_for_all("y_bar"),
        half("x_bar"),
        entry("x_bar"),
        zero_row("x_bar"),
        slight("x_bar"),
    ),
    {
        "small": {"n": 8, "h": 2, "d": 16},
        "medium": {"n": 64, "h": 4, "d": 64},
        "kernel": {"n": 512, "h": 8, "d": 64},
    },
    constants=("cos", "sin"),
)

OPERATORS = (SWIGLU, GELU, SILU, SOFTPLUS, SOFT_CAP, DROPOUT, ROTARY)
