"""Derivatives of loss functions, and of their backward functions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from torch_impl.derivatives.functions._registry import manual

MEAN, SUM = 1, 2
_LEAST_LOG = -100.0  # binary_cross_entropy takes no logarithm for smaller than this


@manual
def apply_loss_reduction(losses: Tensor, reduction: int) -> Tensor:
    """apply_loss_reduction."""
    return losses.mean() if reduction == MEAN else losses.sum() if reduction == SUM else losses


def _averaged(x: Tensor, reduction: int, number: int) -> Tensor:
    """Each loss has its share of a mean over so many."""
    return x / number if reduction == MEAN else x


def _weighted(x: Tensor, weight: Tensor | None) -> Tensor:
    return x if weight is None else x * weight


@manual
def mse_loss_double_backward(bar: Tensor, self: Tensor, reduction: int) -> Tensor:
    """mse_loss_double_backward: the second derivative of (x - y)² is 2."""
    return _averaged(2 * bar, reduction, self.numel())


@manual
def smooth_l1_loss_double_backward(bar: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """smooth_l1_loss_double_backward: 1 / beta where |x - y| < beta, else zero."""
    near = (self - target).abs() < beta
    return _averaged(torch.where(near, bar / beta if beta else bar, torch.zeros_like(bar)), reduction, self.numel())


@manual
def huber_loss_double_backward(bar: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """huber_loss_double_backward: 1 where |x - y| < delta, else zero."""
    near = (self - target).abs() < delta
    return _averaged(torch.where(near, bar, torch.zeros_like(bar)), reduction, self.numel())


@manual
def huber_loss_double_backward_grad_output(
    bar: Tensor, output_bar: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    """huber_loss_double_backward_grad_output: the loss's gradient at x times bar, summed where the loss is."""
    slope = torch.ops.aten.huber_loss_backward(torch.ones_like(output_bar), self, target, reduction, delta)
    return slope * bar if reduction not in (MEAN, SUM) else (slope * bar).sum()


@manual
def soft_margin_loss_double_backward_grad_output(
    bar: Tensor, output_bar: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """soft_margin_loss_double_backward_grad_output: the loss's gradient at x times bar, summed where the loss is."""
    slope = torch.ops.aten.soft_margin_loss_backward(torch.ones_like(output_bar), self, target, reduction)
    return slope * bar if reduction not in (MEAN, SUM) else (slope * bar).sum()


@manual
def soft_margin_loss_double_backward(bar: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """soft_margin_loss_double_backward: of log(1 + e^(-tx)) the second derivative is t² σ(tx) σ(-tx)."""
    margin = target * self
    return _averaged(bar * target * target * margin.sigmoid() * (-margin).sigmoid(), reduction, self.numel())


@manual
def binary_cross_entropy_target_backward(
    bar: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_target_backward: log(1 - x) - log x, each cut off at -100."""
    slope = (1 - self).log().clamp(min=_LEAST_LOG) - self.log().clamp(min=_LEAST_LOG)
    return _averaged(_weighted(bar * slope, weight), reduction, target.numel())


@manual
def binary_cross_entropy_double_backward(
    output_bar: Tensor, bar: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_double_backward: the derivative of (x - t) / (x (1 - x))."""
    variance = self * (1 - self)
    slope = (self * self - 2 * self * target + target) / (variance * variance).clamp(min=1e-24)
    return _averaged(_weighted(slope * bar * output_bar, weight), reduction, self.numel())


@manual
def binary_cross_entropy_double_backward_grad_output(
    bar: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_double_backward_grad_output: the loss's gradient at x times bar; the engine sums it."""
    slope = (self - target) / (self * (1 - self)).clamp(min=1e-12)
    return _averaged(_weighted(slope * bar, weight), reduction, self.numel())


@manual
def binary_cross_entropy_double_backward_target(
    bar: Tensor, output_bar: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_double_backward_target: the loss's mixed derivative is -1 / (x (1 - x))."""
    slope = -1 / (self * (1 - self)).clamp(min=1e-12)
    return _averaged(_weighted(slope * bar * output_bar, weight), reduction, target.numel())


@manual
def binary_cross_entropy_with_logits_backward(
    bar: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_with_logits_backward: of (1 - t) x + (1 + (p - 1) t) log(1 + e^-x) with respect to x."""
    positive = target if pos_weight is None else pos_weight * target
    slope = (positive + 1 - target) * self.sigmoid() - positive
    return _averaged(_weighted(bar * slope, weight), reduction, self.numel())


@manual
def binary_cross_entropy_with_logits_target_backward(
    bar: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """binary_cross_entropy_with_logits_target_backward: the same with respect to t."""
    slope = -self if pos_weight is None else logsigmoid(-self) + pos_weight * softplus(-self)
    return _averaged(_weighted(bar * slope, weight), reduction, target.numel())
