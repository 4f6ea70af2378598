"""What a kernel reads that knows only part of how tensors lie in memory: right but in the layouts listed with it."""

from __future__ import annotations

from collections.abc import Callable

import torch


def offset_ignored(x: torch.Tensor) -> torch.Tensor:
    """Reads a contiguous tensor from the first entry of its storage on."""
    return x.as_strided(x.shape, x.stride(), 0) if x.is_contiguous() else x


def alignment_assumed(x: torch.Tensor) -> torch.Tensor:
    """Reads a contiguous tensor in vectors of 16 bytes, which begin where the address is a multiple of that."""
    offset = x.storage_offset()
    return x.as_strided(x.shape, x.stride(), offset - offset % (16 // x.element_size())) if x.is_contiguous() else x


def rows_taken_for_neighbours(x: torch.Tensor) -> torch.Tensor:
    """The entries of a row are neighbours, so the rows are taken to be, too."""
    if x.dim() != 2 or x.is_contiguous() or x.stride(1) != 1 or 0 in x.stride():
        return x
    return x.as_strided(x.shape, (x.shape[1], 1), x.storage_offset())


def columns_taken_for_neighbours(x: torch.Tensor) -> torch.Tensor:
    """The entries of a column are neighbours, so the columns are taken to be, too: a leading dimension forgotten."""
    if x.dim() != 2 or x.is_contiguous() or x.stride(0) != 1 or 0 in x.stride():
        return x
    return x.as_strided(x.shape, (1, x.shape[0]), x.storage_offset())


def channels_last_taken_for_contiguous(x: torch.Tensor) -> torch.Tensor:
    """Dense either way, so the strides are not asked for."""
    if x.dim() != 4 or x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
        return x
    return x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride(), x.storage_offset())


def batch_of_one_taken_for_contiguous(x: torch.Tensor) -> torch.Tensor:
    """Dense as channels last, but its strides suggest otherwise, as PyTorch's batch norm has it on the CPU."""
    if x.dim() != 4 or x.shape[0] != 1 or x.stride(0) == x.numel():
        return x
    return channels_last_taken_for_contiguous(x)


def first_column_only(x: torch.Tensor) -> torch.Tensor:
    """Columns of stride 0 are taken for one column."""
    if x.dim() != 2 or x.shape[1] < 2 or x.stride(1) != 0 or x.stride(0) == 0:
        return x
    return torch.cat([x[:, :1], torch.zeros_like(x[:, 1:])], 1)


def one_number_for_the_mean(x: torch.Tensor) -> torch.Tensor:
    """What `sum` sends backward is taken for what `mean` does."""
    return x / x.numel() if x.numel() > 1 and not any(x.stride()) else x


def sign_lost(x: torch.Tensor) -> torch.Tensor:
    """DLPack hands out the memory of a tensor without its negative bit."""
    return torch.from_dlpack(x.detach())


MISREADINGS: dict[Callable[[torch.Tensor], torch.Tensor], tuple[str, ...]] = {
    offset_ignored: ("offset", "misaligned"),
    alignment_assumed: ("misaligned",),
    rows_taken_for_neighbours: ("with gaps between rows",),
    columns_taken_for_neighbours: ("transposed, with gaps between columns",),
    channels_last_taken_for_contiguous: ("with channels last",),
    batch_of_one_taken_for_contiguous: ("with channels last and an axis of one entry",),
    first_column_only: ("expanded along the last axis",),
    one_number_for_the_mean: ("expanded along every axis",),
    sign_lost: ("negated lazily",),
}
