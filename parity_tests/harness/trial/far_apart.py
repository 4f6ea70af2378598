"""Tensors whose entries lie so far apart in memory that a 32-bit offset overflows.

They take address space and hardly any memory: the system provides a page when it is first touched, and few are.
"""

from __future__ import annotations

import mmap

import torch

REACH = 2**31  # the first offset, in entries, that a signed 32-bit integer does not have
_MAP_NORESERVE = 0x4000  # of Linux; Python's mmap names it from 3.13 on


def far_apart(x: torch.Tensor) -> torch.Tensor | None:
    """The same values with the last index of the longest axis at an offset of `REACH` entries or more.

    There is memory on both sides of the tensor, zeros, so that an offset that has become negative reads a wrong number
    and does not end the process.

    Returns:
        The tensor, or None if no axis has two entries.

    Raises:
        MemoryError: the device has no room for twice `REACH` entries.
    """
    if max(x.shape, default=0) < 2 or x.numel() == 0:
        return None
    longest = max(range(x.dim()), key=lambda axis: x.shape[axis])
    step = -(-REACH // (x.shape[longest] - 1))
    strides, inner = [0] * x.dim(), 1
    for axis in reversed(range(x.dim())):
        strides[axis] = step if axis == longest else inner
        inner *= 1 if axis == longest else x.shape[axis]
    # Fewer entries lie beside each other than the longest axis leaves between two of its own.
    if inner > step:
        return None
    room = _room(2 * REACH + step + inner, x)
    placed = room.as_strided(x.shape, strides, REACH)
    placed.copy_(x)
    return placed


def _room(entries: int, like: torch.Tensor) -> torch.Tensor:
    """Zeros on the CPU, whose pages are not there until they are touched; on another device memory that is taken."""
    if like.device.type != "cpu":
        try:
            return like.new_zeros(entries)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    try:
        memory = mmap.mmap(-1, entries * like.element_size(), flags=flags)
    except OSError as error:
        raise MemoryError(f"{entries * like.element_size() >> 30} GiB of address space: {error}") from error
    return torch.frombuffer(memory, dtype=like.dtype)
