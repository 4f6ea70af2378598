"""Normalizations: layer norm, RMS norm, group norm, the unit vector."""

from __future__ import annotations

import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function, right

EPS = 1e-5
GROUPS = 4


def _rows_and_weight(rng, sizes):
    n, m = sizes["n"], sizes["m"]
    return [rng.standard_normal((n, m)), 1 + 0.2 * rng.standard_normal(m)]


def _with_bias(rng, sizes):
    return [*_rows_and_weight(rng, sizes), 0.2 * rng.standard_normal(sizes["m"])]


def _epsilon_outside(r):
    return 1 / ((r**-2 - EPS).clamp(min=0).sqrt() + EPS)


# layer_norm: (x - μ) / σ w + b


def _layer_norm(x, w, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + EPS) * w + b


def _layer_norm_torch(x, w, b):
    # Not functional.layer_norm: its jvp takes the statistics for constants, and its bias gradient adds up in 16 bits.
    # Nor rsqrt, whose derivative overflows in float16.
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + EPS) * w + b


def _unbiased(x, w, b):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + EPS) * w + b


def _layer_norm_forward(at, x, w, b):
    centred = x - x.mean(-1, keepdim=True)
    r = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPS)
    normalized = centred * r
    return (normalized * w + b,), (normalized, w, r)


def _layer_norm_backward(at, saved, bars):
    (normalized, w, r), (g,) = saved, bars
    r, normalized = at("r", r), at("normalized", normalized)
    gw = g * at("weight in x_bar", w)
    first = at("first mean", gw.mean(-1, keepdim=True))
    second = at("second mean", at("summands of the second mean", gw * normalized).mean(-1, keepdim=True))
    w_bar = at("rows of w_bar", g * normalized).sum(0)
    b_bar = at("b_bar", at("rows of b_bar", g).sum(0), g)
    return at("x_bar", r * (gw - first - normalized * second)), at("w_bar", w_bar), b_bar


_LAYER_NORM = Formulas("layer norm", _with_bias, _layer_norm_forward, _layer_norm_backward, sites.ROWS)
layer_norm = Operator(
    OpSpec("layer_norm", _layer_norm, "(n,d),(d),(d)->(n,d)"),
    _layer_norm_torch,
    {
        "mean_term_missing": _LAYER_NORM.mistake({"first mean": torch.zeros_like}),
        "variance_term_missing": _LAYER_NORM.mistake({"second mean": torch.zeros_like}),
        "unbiased_variance": Mistake(_unbiased, "forward"),
        "epsilon_outside": Mistake(
            lambda x, w, b: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + EPS) * w + b,
            "forward",
        ),
        "bias_by_the_wrong_axis": _LAYER_NORM.mistake({"b_bar": lambda b_bar, g: g.sum(-1)}),
        "statistics_saved": _LAYER_NORM.mistake({}, "vjp_of_vjp", passes=("forward", "vjp")),
    }
    | _LAYER_NORM.planted(
        sites.left_out("first mean", "the mean of the cotangent is left out of x_bar"),
        sites.left_out("second mean", "the term with the second mean is left out of x_bar"),
        sites.last_block("summands of the second mean", "the last block of columns is left out of the mean", axis=1),
        ("the second mean divides by a size that is 5 % too small", "size", {"second mean": lambda x: x / 0.95}),
        ("the weight is left out of x_bar", "factor", {"weight in x_bar": torch.ones_like}),
        ("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
        sites.last_block("rows of b_bar", "the last block of rows is left out of b_bar"),
        sites.last_block("rows of w_bar", "the last block of rows is left out of w_bar"),
        sites.stale_row("normalized", "one saved row is 10 % too large"),
        sites.half("w_bar"),
        sites.zero_row("x_bar"),
        sites.slight("x_bar"),
    ),
    _LAYER_NORM,
)


# rms_norm: x / sqrt(mean(x²) + ε) w


def _rms_norm(x, w):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def _rms_norm_torch(x, w):
    return functional.rms_norm(x, w.shape, w, EPS)


def _rms_norm_forward(at, x, w):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
    return (x * r * w,), (x, w, r)


def _rms_norm_backward(at, saved, bars):
    (x, w, r), g = saved, at("y_bar", bars[0])
    r, normalized = at("r", r), x * r
    gw = g * at("weight in x_bar", w)
    mean = at("mean", at("summands of the mean", gw * normalized).mean(-1, keepdim=True))
    w_bar = at("rows of w_bar", g * normalized).sum(0)
    return at("x_bar", r * (gw - normalized * mean)), at("w_bar", w_bar, x, g)


def _jvp_without_the_root(x, w, x_dot, w_dot):
    return (x_dot * w + x * w_dot) * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)


RMS_NORM = Formulas("RMS norm", _rows_and_weight, _rms_norm_forward, _rms_norm_backward, sites.ROWS)
rms_norm = Operator(
    OpSpec("rms_norm", _rms_norm, "(n,d),(d)->(n,d)"),
    _rms_norm_torch,
    {
        "mean_of_the_square_missing": RMS_NORM.mistake({"summands of the mean": lambda x: x * x.shape[-1]}),
        "epsilon_of_another_size": Mistake(lambda x, w: functional.rms_norm(x, w.shape, w, 1e-6), "forward"),
        "root_without_square": Mistake(
            function(
                _rms_norm_torch,
                lambda x, w, g: _rms_norm_backward(right, _rms_norm_forward(right, x, w)[1], (g,)),
                _jvp_without_the_root,
            ),
            "jvp",
            passes=("vjp",),
        ),
    }
    | RMS_NORM.planted(
        sites.left_out("mean", "the term with the mean is left out of x_bar"),
        sites.last_block("summands of the mean", "the last block of columns is left out of the mean", axis=1),
        sites.factor("mean", 0.5, "the mean divides by the size padded to twice as many columns"),
        ("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
        ("the weight is left out of x_bar", "factor", {"weight in x_bar": torch.ones_like}),
        sites.last_block("rows of w_bar", "the last block of rows is left out of w_bar"),
        sites.stale_row("r", "the saved root of one row is 10 % too large"),
        sites.first_row_for_all("y_bar"),
        sites.half("x_bar"),
        sites.entry("x_bar"),
        sites.negated_column("x_bar"),
        sites.slight("x_bar"),
    ),
    RMS_NORM,
)

# x / |x|


def _unit(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


def _unit_torch(x):
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _unit_backward(x, w, projected=True, scaled=True):
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    y = x / norm
    tangential = w - y * (y * w).sum(-1, keepdim=True) if projected else w
    return tangential / norm if scaled else tangential


l2_normalize = Operator(
    OpSpec("l2_normalize", _unit, "(n,3)->(n,3)", input_names=("x",)),
    _unit_torch,
    {
        "not_projected": Mistake(function(_unit_torch, lambda x, w: _unit_backward(x, w, projected=False)), "vjp"),
        "not_scaled": Mistake(function(_unit_torch, lambda x, w: _unit_backward(x, w, scaled=False)), "vjp"),
        "norm_detached": Mistake(
            lambda x: x / torch.linalg.vector_norm(x.detach(), dim=-1, keepdim=True), "vjp", passes=("forward",)
        ),
    },
)

# x / max(|x|, ε), and x min(1, c / |x|): no drawn norm is below ε, or above c

SHORTEST, LONGEST = 2.0**-10, 2.0**7


def _held(x):
    return x / jnp.maximum(jnp.sqrt((x * x).sum(-1, keepdims=True)), SHORTEST)


def _held_torch(x):
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=SHORTEST)


def _held_backward(x, w, constant_below=True):
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    y = x / norm
    along = y * (y * w).sum(-1, keepdim=True)
    return (w - along * (norm > SHORTEST) if constant_below else w - along) / norm.clamp(min=SHORTEST)


normalize_held = Operator(
    OpSpec("normalize_held", _held, "(n,3)->(n,3)", input_names=("x",)),
    _held_torch,
    {
        "projected_below_the_eps": Mistake(
            function(_held_torch, lambda x, w: _held_backward(x, w, constant_below=False)),
            "points",
            passes=("forward", "vjp"),
        ),
    },
)


def _clipped(x):
    return x * jnp.minimum(1.0, LONGEST / jnp.sqrt((x * x).sum(-1, keepdims=True)))


def _clipped_torch(x):
    return x * (LONGEST / torch.linalg.vector_norm(x, dim=-1, keepdim=True)).clamp(max=1.0)


clip_by_norm = Operator(
    OpSpec("clip_by_norm", _clipped, "(n,3)->(n,3)", input_names=("x",)),
    _clipped_torch,
    {
        "the_factor_is_detached": Mistake(
            lambda x: x * (LONGEST / torch.linalg.vector_norm(x, dim=-1, keepdim=True)).clamp(max=1.0).detach(),
            "points",
            passes=("forward", "vjp"),
        ),
    },
)


def _images(rng, sizes):
    b, c, length = sizes["b"], sizes["c"], sizes["l"]
    return [rng.standard_normal((b, c, length)), 1 + 0.2 * rng.standard_normal(c), 0.2 * rng.standard_normal(c)]


def _group_norm(x, w, b):
    grouped = x.reshape(x.shape[0], GROUPS, -1)
    centered = grouped - grouped.mean(-1, keepdims=True)
    normalized = centered / jnp.sqrt((centered * centered).mean(-1, keepdims=True) + EPS)
    return normalized.reshape(x.shape) * w[:, None] + b[:, None]


def _group_norm_forward(at, x, w, b):
    grouped = x.reshape(x.shape[0], GROUPS, -1)
    centered = grouped - grouped.mean(-1, keepdim=True)
    r = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPS)
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


group_norm = by_formulas(
    _group_norm,
    Formulas(
        "group norm",
        _images,
        _group_norm_forward,
        _group_norm_backward,
        {
            "small": {"b": 2, "c": 8, "l": 16},
            "medium": {"b": 4, "c": 32, "l": 128},
            "kernel": {"b": 8, "c": 64, "l": 512},
        },
    ),
    sites.left_out("first mean", "the mean of the cotangent is left out of x_bar"),
    sites.left_out("second mean", "the term with the second mean is left out of x_bar"),
    sites.last_block("summands of the second mean", "the last block of a group is left out of the mean", axis=2),
    ("the second mean is that of the group before", "order", {"second mean": lambda x: x.roll(1, 1)}),
    ("the weight in x_bar is that of the channel before", "order", {"weight in x_bar": lambda w: w.roll(1)}),
    ("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
    sites.last_block("batch of w_bar", "the last image is left out of w_bar"),
    sites.last_block("positions of b_bar", "the last block of positions is left out of b_bar", axis=2),
    sites.stale_row("r", "the saved roots of one image are 10 % too large"),
    sites.half("x_bar"),
    sites.entry("x_bar"),
    sites.slight("x_bar"),
)


def _l2_normalize_eps(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) + EPS)


def _l2_normalize_eps_forward(at, x):
    r = torch.rsqrt((x * x).sum(-1, keepdim=True) + EPS)
    y = x * r
    return (y,), (y, r)


def _l2_normalize_eps_backward(at, saved, bars):
    (y, r), g = saved, at("y_bar", bars[0])
    r = at("r", r)
    total = at("sum", at("summands", g * y).sum(-1, keepdim=True))
    return (at("x_bar", r * (g - y * total)),)


l2_normalize_eps = by_formulas(
    _l2_normalize_eps,
    Formulas(
        "L2 normalize",
        lambda rng, sizes: [rng.standard_normal((sizes["n"], sizes["m"]))],
        _l2_normalize_eps_forward,
        _l2_normalize_eps_backward,
        sites.ROWS,
    ),
    sites.left_out("sum", "the term with the sum is left out"),
    sites.last_block("summands", "the last block of columns is left out of the sum", axis=1),
    sites.factor("sum", 2.0, "the term with the sum has a factor 2"),
    ("the sum is that of the row before", "order", {"sum": lambda x: x.roll(1, 0)}),
    ("epsilon is added to the root and not below it, in the backward", "epsilon", {"r": _epsilon_outside}),
    sites.stale_row("r", "the saved root of one row is 10 % too large"),
    sites.first_row_for_all("y_bar"),
    sites.half("x_bar"),
    sites.entry("x_bar"),
    sites.doubled_tile("x_bar"),
    sites.negated_column("x_bar"),
    sites.slight("x_bar"),
)
