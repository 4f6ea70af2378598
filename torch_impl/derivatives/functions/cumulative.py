"""Derivatives of products, and of running sums, products and extremes."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.reductions import kept


@manual
def prod_backward(bar: Tensor, self: Tensor, result: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """prod_backward: the product of all the other entries, which is not result / self where an entry is zero."""
    if self.dim() == 0:
        return bar.clone()
    if dim is None:
        return _prod_along(bar.reshape(1), self.reshape(-1), 0).reshape(self.shape)
    return _prod_along(kept(bar, [dim], keepdim, self.dim()), self, dim)


def _prod_along(bar: Tensor, self: Tensor, dim: int) -> Tensor:
    return bar * others(self, dim).conj()


def others(x: Tensor, dim: int) -> Tensor:
    """For each entry the product of those before it and those after it, along an axis."""
    one = torch.ones_like(x.narrow(dim, 0, 1)) if x.shape[dim] else x
    before = torch.cat([one, x.narrow(dim, 0, max(x.shape[dim] - 1, 0))], dim).cumprod(dim)
    turned = x.flip(dim)
    after = torch.cat([one, turned.narrow(dim, 0, max(x.shape[dim] - 1, 0))], dim).cumprod(dim).flip(dim)
    return before * after


@manual
def cumsum_backward(bar: Tensor, dim: int) -> Tensor:
    """cumsum_backward: an entry is in every sum from its own on."""
    return bar if bar.dim() == 0 else bar.flip(dim).cumsum(dim).flip(dim)


@manual
def cumprod_jvp(self_t: Tensor, self_p: Tensor, result: Tensor, dim: int) -> Tensor:
    """cumprod_jvp: the sum over the factors of the product in which one is replaced by its tangent."""
    if self_p.dim() == 0:
        return self_t
    total = torch.zeros_like(result)
    for i in range(self_p.shape[dim]):
        here = torch.zeros(self_p.shape[dim], dtype=torch.bool)
        here[i] = True
        shape = [-1 if axis == dim % self_p.dim() else 1 for axis in range(self_p.dim())]
        replaced = torch.where(here.reshape(shape), self_t, self_p).cumprod(dim)
        reached = (torch.arange(self_p.shape[dim]) >= i).reshape(shape)
        total = total + torch.where(reached, replaced, torch.zeros_like(replaced))
    return total


@manual
def cummaxmin_backward(bar: Tensor, self: Tensor, indices: Tensor, dim: int) -> Tensor:
    """cummaxmin_backward: an entry gets the cotangents of all places where it is the extreme so far."""
    if self.numel() == 0:
        return torch.zeros_like(self)
    return torch.zeros_like(self).scatter_add(dim, indices, bar)


@manual
def logcumsumexp_backward(bar: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """logcumsumexp_backward: e^x times the sum of bar e^-result from an entry's own place on, within logarithms."""
    if bar.dim() == 0 or bar.numel() == 0:
        return bar
    if bar.is_complex():
        return _weighted_sums(bar.log(), self.conj(), result.conj(), dim)
    # A logarithm has no negative argument; that of 0 is a finite number, since -inf has no second derivatives.
    least, logarithm = torch.full_like(bar, torch.finfo(bar.dtype).min), bar.abs().log()
    up, down = torch.where(bar > 0, logarithm, least), torch.where(bar < 0, logarithm, least)
    return _weighted_sums(up, self, result, dim) - _weighted_sums(down, self, result, dim)


def _weighted_sums(log_bar: Tensor, x: Tensor, result: Tensor, dim: int) -> Tensor:
    return ((log_bar - result).flip(dim).logcumsumexp(dim).flip(dim) + x).exp()


@manual
def logcumsumexp_jvp(self_p: Tensor, self_t: Tensor, dim: int) -> Tensor:
    """logcumsumexp_jvp: the running sum of e^x x_dot over that of e^x; no exponential here is larger than one."""
    if self_p.dim() == 0 or self_p.numel() == 0:
        return self_t
    x, x_dot, result = (v.movedim(dim, -1) for v in (self_p, self_t, self_p.logcumsumexp(dim)))
    weights = (x.unsqueeze(-2) - result.unsqueeze(-1)).exp().tril()
    return (weights @ x_dot.unsqueeze(-1)).squeeze(-1).movedim(-1, dim)
