"""Derivatives of norms, of distances, and of what scales by a norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.elementary import Number
from torch_impl.derivatives.functions.reductions import Dims, kept, listed


@manual
def norm_backward(
    bar: Tensor, self: Tensor, p: Number | None, norm: Tensor, dims: Dims = None, keepdim: bool = True
) -> Tensor:
    """norm_backward: of (Σ |x|^p)^(1/p) the gradient sgn(x) (|x| / norm)^(p-1), and zero where the norm is zero."""
    p = 2.0 if p is None else float(p)  # type: ignore[arg-type]
    bar, norm = (kept(x, dims, keepdim, self.dim()) for x in (bar, norm))
    if p == 0:
        return torch.zeros_like(self)
    if p == 1:
        return self.sgn() * bar
    zero = torch.zeros((), dtype=self.dtype)
    if p == 2:
        return torch.where(norm == 0, zero, self * (bar / norm))
    if math.isinf(p):
        size = self.abs()
        mask = (size == norm) | (size.isnan() & norm.isnan())
        count = mask.sum(listed(dims, self.dim()), keepdim=True) if self.dim() else mask
        return self.sgn() * (bar * mask / count)
    if p < 2:
        powers = torch.where(self == 0, zero, self.sgn() * self.abs().pow(p - 1))
        return torch.where(norm == 0, zero, powers * (bar * norm.pow(1 - p)))
    return torch.where(norm == 0, zero, self * self.abs().pow(p - 2) * (bar / norm.pow(p - 1)))


@manual
def norm_jvp(x: Tensor, dx: Tensor, p: Number | None, norm: Tensor, dims: Dims = None, keepdim: bool = True) -> Tensor:
    """norm_jvp: the gradient's inner product with the tangent, whose real part a real result has."""
    gradient = norm_backward(torch.ones_like(norm), x, p, norm, dims, keepdim)
    product = gradient.conj() * dx
    along = product.real if product.is_complex() else product
    if x.dim() == 0:
        return along
    found = along.sum(listed(dims, x.dim()), keepdim=keepdim)
    return found.reshape(norm.shape)


@manual
def linalg_vector_norm_backward(
    bar: Tensor, self: Tensor, order: Number, norm: Tensor, dims: Dims, keepdim: bool
) -> Tensor:
    """linalg_vector_norm_backward."""
    return norm_backward(bar, self, order, norm, dims, keepdim)


@manual
def linalg_vector_norm_jvp(x: Tensor, dx: Tensor, order: Number, norm: Tensor, dims: Dims, keepdim: bool) -> Tensor:
    """linalg_vector_norm_jvp."""
    return norm_jvp(x, dx, order, norm, dims, keepdim)


@manual
def _euclidean_dist_backward(
    bar: Tensor | None, x1: Tensor, x2: Tensor, distance: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """_euclidean_dist_backward: each distance pulls its two points apart along their difference."""
    if bar is None:
        return None, None
    ratio = torch.where(distance == 0, torch.zeros_like(bar), bar / distance)
    first = x1 * ratio.sum(-1, keepdim=True) - ratio @ x2
    second = x2 * ratio.sum(-2).unsqueeze(-1) - ratio.mT @ x1
    return first, second


_GUARD = 1e-7  # renorm adds this to a norm that it divides by


def _renormed(x: Tensor, p: Number, dim: int, limit: Number) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """The norms of the slices along an axis, their factors, which of them are scaled, and the axes of a slice."""
    axes = [axis for axis in range(x.dim()) if axis != dim % x.dim()]
    norm = torch.linalg.vector_norm(x, float(p), axes, keepdim=True)  # type: ignore[arg-type]
    scaled = norm > limit
    return norm, torch.where(scaled, limit / (norm + _GUARD), torch.ones_like(norm)), scaled, axes


@manual
def renorm_backward(bar: Tensor, self: Tensor, p: Number, dim: int, limit: Number) -> Tensor:
    """renorm_backward: a slice x whose norm n is too large becomes limit x / n."""
    norm, factor, scaled, axes = _renormed(self, p, dim, limit)
    product = bar.conj() * self
    inner = (product.real if product.is_complex() else product).sum(axes, keepdim=True)
    of_norm = torch.where(scaled, -inner * limit / (norm + _GUARD) ** 2, torch.zeros_like(norm))
    return factor * bar + norm_backward(of_norm, self, p, norm, axes, True)


@manual
def renorm_jvp(x: Tensor, dx: Tensor, p: Number, dim: int, limit: Number) -> Tensor:
    """renorm_jvp: the same in forward mode."""
    norm, factor, scaled, axes = _renormed(x, p, dim, limit)
    norm_dot = norm_jvp(x, dx, p, norm, axes, True)
    return factor * dx - torch.where(scaled, limit * norm_dot / (norm + _GUARD) ** 2, torch.zeros_like(norm)) * x
