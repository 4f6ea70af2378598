"""Derivatives of sums, means, variances, extremes, products and running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.elementary import Number

Dims = Sequence[int] | int | None


def listed(dims: Dims, rank: int) -> list[int]:
    """The axes of a reduction, none negative; all of them where none is named."""
    named = [dims] if isinstance(dims, int) else list(dims or [])
    return sorted(dim % rank if rank else 0 for dim in named) if named and rank else list(range(rank))


def kept(x: Tensor, dims: Dims, keepdim: bool, rank: int) -> Tensor:
    """A reduction's result, or a cotangent of it, with the axes that were reduced as axes of size one."""
    if keepdim or rank == 0:
        return x
    for dim in listed(dims, rank):
        x = x.unsqueeze(dim)
    return x


@manual
def restore_reduced_dims(x: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """restore_reduced_dims: as `kept`, of a tensor whose rank says what was removed."""
    named = [dims] if isinstance(dims, int) else list(dims or [])
    return kept(x, named, keepdim, x.dim() + len(named)) if named else x


@manual
def sum_backward(bar: Tensor, sizes: Sequence[int], dims: Dims, keepdim: bool) -> Tensor:
    """sum_backward: every entry of the input has the cotangent of its sum."""
    return kept(bar, dims, keepdim, len(sizes)).expand(list(sizes))


@manual
def nansum_backward(bar: Tensor, self: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """nansum_backward: a sum that left the NaNs out."""
    return sum_backward(bar, list(self.shape), dims, keepdim) * self.isnan().logical_not()


@manual
def mean_backward(bar: Tensor, sizes: Sequence[int], dims: Dims, numel: int, keepdim: bool) -> Tensor:
    """mean_backward: a sum over as many entries as were averaged."""
    number = math.prod(sizes[dim] for dim in listed(dims, len(sizes)))
    return sum_backward(bar, sizes, dims, keepdim) / number


@manual
def var_backward(bar: Tensor, self: Tensor, dims: Dims, correction: Number | None, keepdim: bool) -> Tensor:
    """var_backward: of Σ (x - mean)² / (n - correction) the gradient 2 (x - mean) / (n - correction)."""
    axes = listed(dims, self.dim())
    number = math.prod(self.shape[dim] for dim in axes)
    freedom = number - (1 if correction is None else correction)
    centred = self - (self.mean(axes, keepdim=True) if self.dim() else self)
    factor = 2 / freedom if freedom else math.inf
    return factor * kept(bar, dims, keepdim, self.dim()) * centred


@manual
def std_backward(
    result: Tensor, bar: Tensor, self: Tensor, dims: Dims, correction: Number | None, keepdim: bool
) -> Tensor:
    """std_backward: std = √var; the gradient is taken as zero where std is."""
    of_var = torch.where(result == 0, torch.zeros((), dtype=bar.dtype), bar / (2 * result))
    return var_backward(of_var, self, dims, correction, keepdim)


@manual
def var_mean_backward(
    var_bar: Tensor | None,
    mean_bar: Tensor | None,
    self: Tensor,
    dims: Dims,
    correction: Number | None,
    keepdim: bool,
) -> Tensor | None:
    """var_mean_backward: both outputs' gradients."""
    of_var = None if var_bar is None else var_backward(var_bar, self, dims, correction, keepdim)
    return _with_mean(of_var, mean_bar, self, dims, keepdim)


@manual
def std_mean_backward(
    std_bar: Tensor | None,
    mean_bar: Tensor | None,
    self: Tensor,
    std: Tensor,
    dims: Dims,
    correction: Number | None,
    keepdim: bool,
) -> Tensor | None:
    """std_mean_backward: both outputs' gradients."""
    of_std = None if std_bar is None else std_backward(std, std_bar, self, dims, correction, keepdim)
    return _with_mean(of_std, mean_bar, self, dims, keepdim)


def _with_mean(other: Tensor | None, mean_bar: Tensor | None, self: Tensor, dims: Dims, keepdim: bool) -> Tensor | None:
    if mean_bar is None:
        return other
    of_mean = mean_backward(mean_bar, list(self.shape), dims, self.numel(), keepdim)
    return of_mean if other is None else other + of_mean


@manual
def scale_grad_by_count(bar: Tensor, mask: Tensor, dims: Dims) -> Tensor:
    """scale_grad_by_count: entries that are equally extreme share the cotangent."""
    axes = listed(dims, mask.dim())
    return bar * mask / (mask.sum(axes, keepdim=True) if axes else mask)


@manual
def amaxamin_jvp(x: Tensor, dx: Tensor, result: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """amaxamin_jvp: the mean of the tangents of the entries that are equally extreme."""
    mask = x == kept(result, dims, keepdim, x.dim())
    if x.dim() == 0:
        return torch.where(mask, dx, torch.zeros((), dtype=dx.dtype))
    axes = listed(dims, x.dim())
    zero = torch.zeros((), dtype=dx.dtype)
    return torch.where(mask, dx, zero).sum(axes, keepdim=keepdim) / mask.sum(axes, keepdim=keepdim)


def _one(dim: int | None) -> Dims:
    return None if dim is None else [dim]


@manual
def aminmax_backward(
    self: Tensor,
    dim: int | None,
    keepdim: bool,
    min_bar: Tensor | None,
    max_bar: Tensor | None,
    minimum: Tensor,
    maximum: Tensor,
) -> Tensor | None:
    """aminmax_backward: both outputs' gradients, each shared among the entries that are equally extreme."""
    total = None
    for bar, extreme in ((min_bar, minimum), (max_bar, maximum)):
        if bar is not None:
            axes = _one(dim)
            mask = self == kept(extreme, axes, keepdim, self.dim())
            part = scale_grad_by_count(kept(bar, axes, keepdim, self.dim()), mask, axes)
            total = part if total is None else total + part
    return total


@manual
def aminmax_jvp(x: Tensor, dx: Tensor, result: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """aminmax_jvp: of one of its outputs."""
    return amaxamin_jvp(x, dx, result, _one(dim), keepdim)


def _as_value(self: Tensor, value: Tensor) -> Tensor:
    """Where self has the value, which may be NaN."""
    return self.isnan() if bool(value.isnan().any()) else self == value


@manual
def evenly_distribute_backward(bar: Tensor, self: Tensor, value: Tensor) -> Tensor:
    """evenly_distribute_backward: the entries that have the value share the cotangent."""
    mask = _as_value(self, value)
    return mask * (bar / mask.sum())


@manual
def evenly_read_jvp(dx: Tensor, x: Tensor, value: Tensor) -> Tensor:
    """evenly_read_jvp: the mean of the tangents of the entries that have the value."""
    mask = _as_value(x, value)
    return (mask * dx).sum() / mask.sum()


@manual
def gather_with_keepdimed_indices(x: Tensor, dim: int, indices: Tensor, keepdim: bool) -> Tensor:
    """gather_with_keepdimed_indices: the entries at the indices that a reduction over one axis gave."""
    if keepdim or x.dim() == 0:
        return x.gather(dim, indices)
    return x.gather(dim, indices.unsqueeze(dim)).squeeze(dim)


@manual
def logsumexp_backward(bar: Tensor, self: Tensor, result: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """logsumexp_backward: the softmax times the cotangent."""
    rank = self.dim()
    weights = (self - kept(result, dims, keepdim, rank)).exp().conj()
    return kept(bar, dims, keepdim, rank) * weights


@manual
def logsumexp_jvp(x: Tensor, dx: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """logsumexp_jvp: the tangent weighted by the softmax, also where all entries are infinite."""
    if x.dim() == 0:
        return dx
    axes = listed(dims, x.dim())
    if x.numel() == 0:
        return dx.sum(axes, keepdim=keepdim)
    peak = (x.real if x.is_complex() else x).amax(axes, keepdim=True)
    weights = (x - torch.where(peak.isinf(), torch.zeros_like(peak), peak)).exp()
    return (weights * dx).sum(axes, keepdim=keepdim) / weights.sum(axes, keepdim=keepdim)


@manual
def safe_logsumexp_jvp(x: Tensor, dx: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """safe_logsumexp_jvp: zero where every entry is -inf, whose softmax counts as zero."""
    found = logsumexp_jvp(x, dx, dims, keepdim)
    empty = (x == -math.inf).all(listed(dims, x.dim()), keepdim=keepdim) if x.dim() else x == -math.inf
    return torch.where(empty, torch.zeros((), dtype=dx.dtype), found)
