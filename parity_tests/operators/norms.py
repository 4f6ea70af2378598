"""Normalizations: layer norm, rms norm, the unit vector."""

from __future__ import annotations

import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function, saving

EPS = 1e-5

# layer_norm: (x - μ) / σ w + b


def _layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + EPS) * weight + bias


def _normalized(x):
    centred = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPS)
    return centred * rstd, rstd


def _layer_norm_torch(x, weight, bias):
    # Not functional.layer_norm: its jvp takes the statistics for constants, and its bias gradient adds up in 16 bits.
    # Nor rsqrt, whose derivative overflows in float16.
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + EPS) * weight + bias


def _layer_norm_with(terms=("mean", "variance"), of_weight=lambda y, hat: (y * hat).sum(0), of_bias=lambda y: y.sum(0)):
    def backward(x, weight, bias, y_bar):
        hat, rstd = _normalized(x)
        g = y_bar * weight
        x_bar = g
        if "mean" in terms:
            x_bar = x_bar - g.mean(-1, keepdim=True)
        if "variance" in terms:
            x_bar = x_bar - hat * (g * hat).mean(-1, keepdim=True)
        return x_bar * rstd, of_weight(y_bar, hat), of_bias(y_bar)

    return function(_layer_norm_torch, backward)


def _unbiased(x, weight, bias):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + EPS) * weight + bias


def _saved_statistics(x, weight, bias):
    hat, rstd = _normalized(x)
    return hat * weight + bias, (hat, rstd, weight)


def _by_saved_statistics(hat, rstd, weight, y_bar):
    g = y_bar * weight
    x_bar = (g - g.mean(-1, keepdim=True) - hat * (g * hat).mean(-1, keepdim=True)) * rstd
    return x_bar, (y_bar * hat).sum(0), y_bar.sum(0)


layer_norm = Operator(
    OpSpec("layer_norm", _layer_norm, "(n,d),(d),(d)->(n,d)"),
    _layer_norm_torch,
    {
        "mean_term_missing": Mistake(_layer_norm_with(("variance",)), "vjp", passes=("forward",)),
        "variance_term_missing": Mistake(_layer_norm_with(("mean",)), "vjp", passes=("forward",)),
        "unbiased_variance": Mistake(_unbiased, "forward"),
        "epsilon_outside": Mistake(
            lambda x, w, b: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + EPS) * w + b,
            "forward",
        ),
        "bias_by_the_wrong_axis": Mistake(_layer_norm_with(of_bias=lambda y: y.sum(-1)), "vjp"),
        "statistics_saved": Mistake(
            saving(_saved_statistics, _by_saved_statistics), "vjp_of_vjp", passes=("forward", "vjp")
        ),
    },
)


# rms_norm: x / sqrt(mean(x²) + ε) w


def _rms_norm(x, weight):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def _rms_norm_torch(x, weight):
    return functional.rms_norm(x, weight.shape, weight, EPS)


def _rms_backward(x, weight, w, factor=None):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
    g = w * weight
    inner = (g * x).sum(-1, keepdim=True) / (x.shape[-1] if factor is None else factor)
    return r * g - r**3 * x * inner, (w * x * r).sum(0)


rms_norm = Operator(
    OpSpec("rms_norm", _rms_norm, "(n,d),(d)->(n,d)"),
    _rms_norm_torch,
    {
        "mean_of_the_square_missing": Mistake(
            function(_rms_norm_torch, lambda x, weight, w: _rms_backward(x, weight, w, 1)), "vjp", passes=("forward",)
        ),
        "epsilon_of_another_size": Mistake(lambda x, w: functional.rms_norm(x, w.shape, w, 1e-6), "forward"),
        "root_without_square": Mistake(
            function(
                _rms_norm_torch,
                _rms_backward,
                lambda x, weight, x_dot, weight_dot: (
                    (x_dot * weight + x * weight_dot) * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
                ),
            ),
            "jvp",
            passes=("vjp",),
        ),
    },
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
