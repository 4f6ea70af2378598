"""Derivatives of batch, layer, group and RMS normalization.

Throughout x̂ = (x - mean x) s with s = 1 / √(var x + eps), means over the axes that are normalized, and the output is
γ x̂ + β.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual

Triple = tuple[Tensor | None, Tensor | None, Tensor | None]


def _channels(x: Tensor | None, rank: int) -> Tensor | None:
    """A vector over the channels, which are axis 1."""
    return None if x is None else x.reshape([1, -1, *[1] * (rank - 2)])


def _projected(x: Tensor, x_hat: Tensor, scale: Tensor, axes: list[int]) -> Tensor:
    """The Jacobian of x ↦ x̂, which is symmetric: it takes from a vector its mean and its part along x̂."""
    along = (x * x_hat).mean(axes, keepdim=True)
    return scale * (x - x.mean(axes, keepdim=True) - x_hat * along)


def _affine(
    x_hat: Tensor, x_hat_dot: Tensor, weight: Tensor | None, weight_dot: Tensor | None, bias_dot: Tensor | None
):
    found = x_hat_dot if weight is None else x_hat_dot * weight
    found = found if weight_dot is None else found + x_hat * weight_dot
    return found if bias_dot is None else found + bias_dot


@manual
def batch_norm_jvp(
    x: Tensor,
    x_dot: Tensor,
    weight: Tensor | None,
    weight_dot: Tensor | None,
    bias: Tensor | None,
    bias_dot: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    saved_mean: Tensor,
    saved_invstd: Tensor,
    train: bool,
    eps: float,
) -> Tensor:
    """batch_norm_jvp: with running statistics x̂ is linear in x."""
    rank = x.dim()
    axes = [0, *range(2, rank)]
    if train:
        mean, scale = _channels(saved_mean, rank), _channels(saved_invstd, rank)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean, scale = _channels(running_mean, rank), _channels((running_var + eps).rsqrt(), rank)
    assert mean is not None
    assert scale is not None
    x_hat = (x - mean) * scale
    x_hat_dot = _projected(x_dot, x_hat, scale, axes) if train else x_dot * scale
    return _affine(x_hat, x_hat_dot, *(_channels(v, rank) for v in (weight, weight_dot, bias_dot)))


@manual
def layer_norm_jvp(
    x: Tensor,
    x_dot: Tensor,
    weight: Tensor | None,
    weight_dot: Tensor | None,
    bias: Tensor | None,
    bias_dot: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    normalized_shape: Sequence[int],
) -> Tensor:
    """layer_norm_jvp."""
    x_hat = (x - mean) * scale
    x_hat_dot = _projected(x_dot, x_hat, scale, _last(x, normalized_shape))
    return _affine(x_hat, x_hat_dot, weight, weight_dot, bias_dot)


def _last(x: Tensor, normalized_shape: Sequence[int]) -> list[int]:
    return list(range(x.dim() - len(normalized_shape), x.dim()))


def _double_backward(
    x_hat: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bar: Tensor,
    bars: Triple,
    axes: list[int],
    shared: list[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of (x, γ, output cotangent) through a normalization's backward, where `bars` are its cotangents.

    The backward gives s (G - mean G - x̂ mean(G x̂)) for x, with G = γ ḡ, and the sums over the axes `shared` of ḡ x̂
    and of ḡ for γ and β; it depends on x through x̂ and through s.
    """
    along_x, along_weight, along_bias = bars
    weighted = bar if weight is None else bar * weight
    through_x_hat = torch.zeros_like(x_hat)
    of_scale = torch.zeros_like(scale)
    of_weight = torch.zeros_like(x_hat).sum(list(shared), keepdim=True)
    of_bar = torch.zeros_like(bar)
    if along_x is not None:
        a, b = ((v * x_hat).mean(axes, keepdim=True) for v in (along_x, weighted))
        projected = _projected(along_x, x_hat, scale, axes)
        through_x_hat = through_x_hat - scale * (along_x * b + a * weighted)
        of_scale = ((along_x * weighted).mean(axes, keepdim=True) - a * b) - (
            along_x.mean(axes, keepdim=True) * weighted.mean(axes, keepdim=True)
        )
        of_weight = of_weight + (projected * bar).sum(list(shared), keepdim=True)
        of_bar = of_bar + (projected if weight is None else projected * weight)
    if along_weight is not None:
        through_x_hat = through_x_hat + along_weight * bar
        of_bar = of_bar + along_weight * x_hat
    if along_bias is not None:
        of_bar = of_bar + along_bias
    of_x = _projected(through_x_hat, x_hat, scale, axes) - scale * scale * x_hat * of_scale
    return of_x, of_weight, of_bar


@manual
def batchnorm_double_backward(
    x: Tensor,
    weight: Tensor | None,
    along_x: Tensor | None,
    along_weight: Tensor | None,
    along_bias: Tensor | None,
    bar: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    eps: float,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    mask: Sequence[bool],
) -> Triple:
    """batchnorm_double_backward: the gradients of (input, weight, output cotangent)."""
    rank = x.dim()
    axes = [0, *range(2, rank)]
    gamma = _channels(weight, rank)
    along = (along_x, _channels(along_weight, rank), _channels(along_bias, rank))
    if training:
        mean, scale = _channels(save_mean, rank), _channels(save_invstd, rank)
    else:
        assert running_var is not None
        mean, scale = _channels(running_mean, rank), _channels((running_var + eps).rsqrt(), rank)
    assert mean is not None
    assert scale is not None
    x_hat = (x - mean) * scale
    if training:
        of_x, of_weight, of_bar = _double_backward(x_hat, scale, gamma, bar, along, axes, axes)
    else:
        of_x, of_weight, of_bar = _linear_double_backward(x_hat, scale, gamma, bar, along, axes)
    of_weight = None if weight is None else of_weight.reshape(weight.shape)
    return of_x if mask[0] else None, of_weight if mask[1] else None, of_bar if mask[2] else None


def _linear_double_backward(
    x_hat: Tensor, scale: Tensor, weight: Tensor | None, bar: Tensor, bars: Triple, axes: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The same with statistics that do not depend on x."""
    along_x, along_weight, along_bias = bars
    zero = torch.zeros_like(x_hat)
    of_x = zero if along_weight is None else along_weight * bar * scale
    of_weight = (zero if along_x is None else along_x * bar * scale).sum(list(axes), keepdim=True)
    of_bar = zero if along_x is None else along_x * scale * (1 if weight is None else weight)
    of_bar = of_bar if along_weight is None else of_bar + along_weight * x_hat
    return of_x, of_weight, of_bar if along_bias is None else of_bar + along_bias


@manual
def layer_norm_double_backward(
    x: Tensor,
    weight: Tensor | None,
    along_x: Tensor | None,
    along_weight: Tensor | None,
    along_bias: Tensor | None,
    bar: Tensor,
    mean: Tensor,
    scale: Tensor,
    normalized_shape: Sequence[int],
    mask: Sequence[bool],
) -> Triple:
    """layer_norm_double_backward: the gradients of (input, weight, output cotangent)."""
    axes = _last(x, normalized_shape)
    shared = list(range(x.dim() - len(axes)))
    x_hat = (x - mean) * scale
    along = (along_x, along_weight, along_bias)
    if shared:
        of_x, of_weight, of_bar = _double_backward(x_hat, scale, weight, bar, along, axes, shared)
    else:
        # A sum over no axis is the tensor itself, which torch.sum takes for a sum over all
        lifted = [None if v is None else v.unsqueeze(0) for v in (x_hat, scale, weight, bar, *along)]
        moved = [axis + 1 for axis in axes]
        found = _double_backward(lifted[0], lifted[1], lifted[2], lifted[3], tuple(lifted[4:]), moved, [0])  # type: ignore[arg-type]
        of_x, of_weight, of_bar = (v.squeeze(0) for v in found)
    of_weight = None if weight is None else of_weight.reshape(weight.shape)
    return of_x if mask[0] else None, of_weight if mask[1] else None, of_bar if mask[2] else None


def _groups(x: Tensor, number: int) -> Tensor:
    """The entries that are normalized together, as the last axis of three."""
    return x.reshape(x.shape[0], number, math.prod(x.shape[1:]) // number)


@manual
def group_norm_jvp(
    x: Tensor,
    x_dot: Tensor,
    weight: Tensor | None,
    weight_dot: Tensor | None,
    bias: Tensor | None,
    bias_dot: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    groups: int,
) -> Tensor:
    """group_norm_jvp."""
    mean, scale = mean.unsqueeze(-1), scale.unsqueeze(-1)
    x_hat = (_groups(x, groups) - mean) * scale
    x_hat_dot = _projected(_groups(x_dot, groups), x_hat, scale, [-1])
    parts = (_channels(v, x.dim()) for v in (weight, weight_dot, bias_dot))
    return _affine(x_hat.reshape(x.shape), x_hat_dot.reshape(x.shape), *parts)


@manual
def group_norm_mean_jvp(x_dot: Tensor, mean: Tensor, groups: int) -> Tensor:
    """group_norm_mean_jvp."""
    return _groups(x_dot, groups).mean(-1).reshape(mean.shape)


@manual
def group_norm_invstd_jvp(x: Tensor, x_dot: Tensor, mean: Tensor, scale: Tensor, groups: int) -> Tensor:
    """group_norm_invstd_jvp: s_dot = -s³ mean((x - mean) x_dot)."""
    centred = _groups(x, groups) - mean.unsqueeze(-1)
    return -(scale**3) * (centred * _groups(x_dot, groups)).mean(-1).reshape(scale.shape)


@manual
def infinitely_differentiable_native_group_norm_backward(
    bar: Tensor | None,
    mean_bar: Tensor | None,
    scale_bar: Tensor | None,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    eps: float,
    mask: Sequence[bool],
) -> Triple:
    """infinitely_differentiable_native_group_norm_backward: also where mean and 1 / √(var + eps) have cotangents."""
    s = scale.unsqueeze(-1)
    x_hat = (_groups(x, groups) - mean.unsqueeze(-1)) * s
    number = x_hat.shape[-1]
    of_x, of_weight, of_bias = torch.zeros_like(x_hat), None, None
    if bar is not None:
        gamma = _channels(weight, x.dim())
        of_x = _projected(_groups(bar if gamma is None else bar * gamma, groups), x_hat, s, [-1])
        by_channel = bar.reshape(batch, channels, size)
        of_weight = (by_channel * x_hat.reshape(batch, channels, size)).sum([0, 2])
        of_bias = by_channel.sum([0, 2])
    if mean_bar is not None:
        of_x = of_x + mean_bar.unsqueeze(-1) / number
    if scale_bar is not None:
        of_x = of_x - scale_bar.unsqueeze(-1) * s * s * x_hat / number
    return of_x.reshape(x.shape) if mask[0] else None, of_weight if mask[1] else None, of_bias if mask[2] else None


@manual
def infinitely_differentiable_native_rms_norm_backward(
    bar: Tensor | None,
    scale_bar: Tensor | None,
    x: Tensor,
    normalized_shape: Sequence[int],
    scale: Tensor,
    weight: Tensor | None,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """infinitely_differentiable_native_rms_norm_backward: the output is γ x r with r = 1 / √(mean x² + eps)."""
    axes = _last(x, normalized_shape)
    of_x, of_weight = torch.zeros_like(x), None
    if bar is not None:
        weighted = bar if weight is None else bar * weight
        of_x = scale * weighted - scale**3 * x * (weighted * x).mean(axes, keepdim=True)
        shared = list(range(x.dim() - len(axes)))
        of_weight = (bar * x * scale).sum(shared) if shared else bar * x * scale
    if scale_bar is not None:
        of_x = of_x - scale_bar * scale**3 * x / math.prod(normalized_shape)
    return of_x if mask[0] else None, of_weight if mask[1] and weight is not None else None


@manual
def rms_norm_jvp(
    x: Tensor,
    x_dot: Tensor,
    weight: Tensor | None,
    weight_dot: Tensor | None,
    scale: Tensor,
    normalized_shape: Sequence[int],
) -> Tensor:
    """rms_norm_jvp."""
    scale_dot = rms_norm_rstd_jvp(x, x_dot, scale, normalized_shape)
    return _affine(x * scale, x_dot * scale + x * scale_dot, weight, weight_dot, None)


@manual
def rms_norm_rstd_jvp(x: Tensor, x_dot: Tensor, scale: Tensor, normalized_shape: Sequence[int]) -> Tensor:
    """rms_norm_rstd_jvp: r_dot = -r³ mean(x x_dot)."""
    return -(scale**3) * (x * x_dot).mean(_last(x, normalized_shape), keepdim=True)
