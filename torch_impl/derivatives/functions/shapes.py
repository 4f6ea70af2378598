"""Derivatives of what moves entries around: views, joins, splits, pads, casts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.errors import NotEvaluable
from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.elementary import handle_r_to_c
from torch_impl.derivatives.values import Dual, TensorGeometry, TensorOptions


@manual
def unsqueeze_to(bar: Tensor, *rest: Sequence[int] | int) -> Tensor:
    """unsqueeze_to: puts the axes of size one back that squeeze removed from the given sizes."""
    sizes = list(rest[-1]) if not isinstance(rest[-1], int) else []
    if len(rest) == 1:
        removed = [dim for dim, size in enumerate(sizes) if size == 1]
    else:
        named = [rest[0]] if isinstance(rest[0], int) else list(rest[0])
        removed = sorted({dim % len(sizes) for dim in named if sizes and sizes[dim] == 1})
    for dim in removed:
        bar = bar.unsqueeze(dim)
    return bar


@manual
def unsqueeze_multiple(bar: Tensor, dims: Sequence[int] | None, rank: int) -> Tensor:
    """unsqueeze_multiple: puts the named axes back; every one, where none is named."""
    for dim in sorted({dim % rank for dim in dims} if dims else range(rank)):
        bar = bar.unsqueeze(dim)
    return bar


@manual
def slice_backward_wrapper(
    bar: Tensor, sizes: Sequence[int], dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    """slice_backward_wrapper: the cotangent within zeros; an end left out is the axis's."""
    found = torch.zeros(list(sizes), dtype=bar.dtype, device=bar.device)
    return found.slice_scatter(bar, dim, start or 0, end, step)


def _joined(bars: Sequence[Tensor | None], sizes: Sequence[int], dim: int, shape: Sequence[int], of: TensorOptions):
    parts = []
    for bar, size in zip(bars, sizes, strict=True):
        of_part = [size if axis == dim % len(shape) else n for axis, n in enumerate(shape)]
        parts.append(torch.zeros(of_part, dtype=of.dtype, device=of.device) if bar is None else bar)
    return torch.cat(parts, dim)


@manual
def split_with_sizes_backward(
    bars: Sequence[Tensor | None], split_sizes: Sequence[int], dim: int, sizes: Sequence[int], options: TensorOptions
) -> Tensor:
    """split_with_sizes_backward: the pieces' cotangents put together, zeros for those that have none."""
    return _joined(bars, split_sizes, dim, sizes, options)


@manual
def split_backward(
    bars: Sequence[Tensor | None], split_size: int, dim: int, sizes: Sequence[int], options: TensorOptions
) -> Tensor:
    """split_backward: pieces of one size, the last of what is left."""
    whole = sizes[dim]
    pieces = [min(split_size, whole - i * split_size) for i in range(len(bars))]
    return _joined(bars, pieces, dim, sizes, options)


@manual
def unbind_backward(bars: Sequence[Tensor | None], dim: int) -> Tensor:
    """unbind_backward: the cotangents stacked, zeros for those that have none."""
    like = next(bar for bar in bars if bar is not None)
    return torch.stack([torch.zeros_like(like) if bar is None else bar for bar in bars], dim)


@manual
def permute_backwards(bar: Tensor, dims: Sequence[int]) -> Tensor:
    """permute_backwards: the inverse permutation."""
    rank = len(dims)
    return bar.permute(sorted(range(rank), key=lambda axis: dims[axis] % rank))


@manual
def repeat_backward(bar: Tensor, repeats: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """repeat_backward: the sum over all copies."""
    if 0 in repeats:
        return torch.zeros(list(sizes), dtype=bar.dtype, device=bar.device)
    new = len(repeats) - len(sizes)
    bar = bar.sum(list(range(new))) if new else bar
    shape: list[int] = []
    for times, size in zip(repeats[new:], sizes, strict=True):
        shape += [times, size]
    return bar.reshape(shape).sum(list(range(0, len(shape), 2))) if shape else bar


def _places(geometry: TensorGeometry) -> Tensor:
    """The place in memory of each entry of a strided tensor."""
    places = torch.tensor(geometry.offset)
    for size, stride in zip(geometry.sizes, geometry.strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.reshape(geometry.sizes)


@manual
def as_strided_backward(
    bar: Tensor, of: TensorGeometry, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> Tensor:
    """as_strided_backward: cotangents meet where two entries are one place in memory.

    An input's entries that share a place share its cotangent equally.
    """
    output = TensorGeometry(tuple(size), tuple(stride), of.offset if offset is None else offset)
    to, of_input = _places(output).reshape(-1), _places(of).reshape(-1)
    length = 1 + max([-1, *to.tolist(), *of_input.tolist()])
    memory = torch.zeros(length, dtype=bar.dtype).index_add(0, to, bar.reshape(-1))
    count = torch.zeros(length, dtype=bar.real.dtype if bar.is_complex() else bar.dtype)
    count = count.index_add(0, of_input, torch.ones(len(of_input), dtype=count.dtype))
    return (memory / count.clamp(min=1))[of_input].reshape(of.sizes)


@manual
def as_strided_scatter_backward(
    bar: Tensor,
    of: TensorGeometry,
    source: TensorGeometry,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None,
) -> Tensor:
    """as_strided_scatter_backward: zero where the source was written."""
    written = _places(TensorGeometry(tuple(size), tuple(stride), of.offset if offset is None else offset))
    return bar.masked_fill(torch.isin(_places(of), written), 0)


@manual
def cat_tensors_backward(
    bar: Tensor | None, sizes: Sequence[Sequence[int]], dtypes: Sequence[torch.dtype], dim: int
) -> list[Tensor | None]:
    """cat_tensors_backward: each tensor's piece; an empty vector among them takes no part."""
    if bar is None:
        return [None] * len(sizes)
    found: list[Tensor | None] = []
    start = 0
    for shape, dtype in zip(sizes, dtypes, strict=True):
        if list(shape) == [0]:
            found.append(torch.zeros(0, dtype=bar.dtype))
            continue
        found.append(handle_r_to_c(dtype, bar.narrow(dim, start, shape[dim])))
        start += shape[dim]
    return found


def _tangents(tensors: Sequence[Dual]) -> list[Tensor] | None:
    if all(one.tangent is None for one in tensors):
        return None
    return [torch.zeros_like(one.primal) if one.tangent is None else one.tangent for one in tensors]


@manual
def cat_jvp(tensors: Sequence[Dual], dim: int) -> Tensor | None:
    """cat_jvp."""
    tangents = _tangents(tensors)
    return None if tangents is None else torch.cat(tangents, dim)


@manual
def stack_tensors_backward(bar: Tensor | None, dim: int, dtypes: Sequence[torch.dtype]) -> list[Tensor | None]:
    """stack_tensors_backward."""
    if bar is None:
        return [None] * len(dtypes)
    return [handle_r_to_c(dtype, one) for dtype, one in zip(dtypes, bar.unbind(dim), strict=True)]


@manual
def stack_jvp(tensors: Sequence[Dual], dim: int) -> Tensor | None:
    """stack_jvp."""
    tangents = _tangents(tensors)
    return None if tangents is None else torch.stack(tangents, dim)


@manual
def block_diag_backward(
    bar: Tensor | None, sizes: Sequence[Sequence[int]], dtypes: Sequence[torch.dtype]
) -> list[Tensor | None]:
    """block_diag_backward: the blocks on the diagonal; a vector is a row, a number a block of one."""
    if bar is None:
        return [None] * len(sizes)
    found: list[Tensor | None] = []
    row = column = 0
    for shape, dtype in zip(sizes, dtypes, strict=True):
        height, width = [1, 1, *shape][-2:]
        block = bar[row : row + height, column : column + width].reshape(list(shape))
        found.append(handle_r_to_c(dtype, block))
        row, column = row + height, column + width
    return found


@manual
def block_diag_jvp(tensors: Sequence[Dual]) -> Tensor | None:
    """block_diag_jvp."""
    tangents = _tangents(tensors)
    return None if tangents is None else torch.block_diag(*tangents)


@manual
def constant_pad_nd_backward(bar: Tensor, pad: Sequence[int]) -> Tensor:
    """constant_pad_nd_backward: the part that was not padded."""
    return torch.constant_pad_nd(bar, [-one for one in pad], 0)


@manual
def index_backward(zeros: Tensor, indices: Sequence[Tensor | None], bar: Tensor) -> Tensor:
    """index_backward: an entry that was read several times gets the sum."""
    return torch.ops.aten.index_put(zeros, list(indices), bar, True)


@manual
def take_backward(bar: Tensor, self: Tensor, index: Tensor) -> Tensor:
    """take_backward: an entry that was read several times gets the sum."""
    return torch.zeros_like(self).put(index, bar, accumulate=True)


@manual
def masked_fill_backward(bar: Tensor, mask: Tensor) -> Tensor:
    """masked_fill_backward: of the value that was filled in."""
    return torch.where(mask, bar, torch.zeros((), dtype=bar.dtype)).sum()


@manual
def masked_fill_inplace_if_safe(self: Tensor, mask: Tensor, value: float) -> Tensor:
    """masked_fill_inplace_if_safe: masked_fill, in place where nobody can tell."""
    return self.masked_fill(mask, value)


@manual
def _to_copy_backward(bar: Tensor, options: TensorOptions) -> Tensor:
    """_to_copy_backward: cast back; only the real part belongs to a real input."""
    return handle_r_to_c(options.dtype, bar).to(dtype=options.dtype, device=options.device)


@manual
def to_sparse_backward(bar: Tensor, layout: torch.layout, blocksize: Sequence[int] | None) -> Tensor:
    """to_sparse_backward, of a dense input.

    Raises:
        NotEvaluable: the input was sparse in another layout.
    """
    if layout != torch.strided:
        raise NotEvaluable("to_sparse_backward", f"the input's layout is {layout}")
    return bar if bar.layout == torch.strided else bar.to_dense()


@manual
def max_pool_double_backward(bar: Tensor, indices: Tensor, dims: int) -> Tensor:
    """max_pool_double_backward: pooling reads the entries that were largest, within the last `dims` axes."""
    if indices.numel() == 0:
        return torch.zeros(indices.shape, dtype=bar.dtype)
    flat = bar.reshape([*bar.shape[:-dims], math.prod(bar.shape[-dims:])])
    return flat.gather(-1, indices.flatten(-dims)).reshape(indices.shape)
