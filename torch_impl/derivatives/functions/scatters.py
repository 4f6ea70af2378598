"""Derivatives of reductions into places that an index names."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual

Pair = tuple[Tensor | None, Tensor | None]


@manual
def scatter_reduce_backward(
    bar: Tensor | None,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Pair:
    """scatter_reduce_backward: each place is a reduction of what was put there, and of self if that is included."""
    if bar is None:
        return None, None
    kind = {"amax": "extreme", "amin": "extreme"}.get(reduce, reduce)
    if kind == "sum":
        self_bar, source_bar = bar, bar.gather(dim, index)
    elif kind == "mean":
        count = torch.ones_like(bar) if include_self else torch.zeros_like(bar)
        share = bar / count.scatter_add(dim, index, torch.ones_like(source)).clamp(min=1)
        self_bar, source_bar = share, share.gather(dim, index)
    elif kind == "extreme":
        self_bar, source_bar = _of_extreme(bar, self, dim, index, source, result)
    else:
        self_bar, source_bar = _of_product(bar, self, dim, index, source, include_self)
    return self_bar if include_self else self_bar.scatter(dim, index, 0), source_bar


def _of_extreme(
    bar: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, result: Tensor
) -> tuple[Tensor, Tensor]:
    """Entries that are equally extreme share the cotangent."""
    self_is = (self == result).to(bar.dtype)
    source_is = (source == result.gather(dim, index)).to(bar.dtype)
    share = bar / self_is.scatter_add(dim, index, source_is)
    return self_is * share, source_is * share.gather(dim, index)


def _of_product(
    bar: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    """The product of all the others: of the factors that are not zero, if no other one is zero."""
    one = torch.ones((), dtype=self.dtype)
    self_zero, source_zero = self == 0, source == 0
    whole_self, whole_source = torch.where(self_zero, one, self), torch.where(source_zero, one, source)
    product = whole_self.scatter_reduce(dim, index, whole_source, "prod", include_self=include_self)
    zeros = self_zero.to(self.dtype) if include_self else torch.zeros_like(self)
    zeros = zeros.scatter_add(dim, index, source_zero.to(self.dtype))
    self_bar = bar * (product / whole_self) * (zeros == self_zero)
    others = zeros.gather(dim, index) == source_zero
    return self_bar, (bar * product).gather(dim, index) / whole_source * others


@manual
def scatter_reduce_jvp(
    self_p: Tensor,
    self_t: Tensor,
    dim: int,
    index: Tensor,
    source_p: Tensor,
    source_t: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """scatter_reduce_jvp: sums and means are linear; of a product each factor has the others as its slope."""
    if reduce in ("sum", "mean"):
        return self_t.scatter_reduce(dim, index, source_t, reduce, include_self=include_self)
    how = (dim, index)
    if reduce == "prod":
        self_slope, source_slope = _of_product(torch.ones_like(self_t), self_p, dim, index, source_p, include_self)
        self_slope = self_slope if include_self else self_slope.scatter(*how, 0)
        return (self_slope * self_t).scatter_add(*how, source_slope * source_t)
    self_is = (self_p == result).to(self_t.dtype)
    source_is = (source_p == result.gather(dim, index)).to(self_t.dtype)
    if not include_self:
        self_is = self_is.scatter(*how, 0)
    total = (self_is * self_t).scatter_add(*how, source_is * source_t)
    return total / self_is.scatter_add(*how, source_is)


@manual
def index_reduce_backward(
    bar: Tensor | None,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Pair:
    """index_reduce_backward: as scatter_reduce_backward, with one index for a whole slice."""
    if bar is None:
        return None, None
    if self.dim() == 0 or source.dim() == 0:
        flat = [x.reshape(1) for x in (bar, self, index, source, result)]
        spread = scatter_reduce_backward(flat[0], flat[1], 0, flat[2], flat[3], reduce, include_self, flat[4])
        return tuple(x if x is None else x.reshape(like.shape) for x, like in zip(spread, (self, source), strict=True))  # type: ignore[return-value]
    shape = [-1 if axis == dim % self.dim() else 1 for axis in range(self.dim())]
    every = index.reshape(shape).expand(source.shape)
    return scatter_reduce_backward(bar, self, dim, every, source, reduce, include_self, result)
