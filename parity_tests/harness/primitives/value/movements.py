"""Movements of the numbers of one operand, in NumPy: (operand, the parameters of the equation) -> result."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def itself(x: np.ndarray, **_: Any) -> np.ndarray:
    """The operand."""
    return x


def broadcast(x: np.ndarray, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> np.ndarray:
    """The value of broadcast_in_dim."""
    return broadcaster(np.shape(x), tuple(shape), tuple(broadcast_dimensions))(x)


@functools.lru_cache(maxsize=1024)
def broadcaster(old: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> Callable[..., np.ndarray]:
    """Return the function that broadcasts arrays of a shape to another, each of its axes to one of these."""
    aligned, steps = [1] * len(shape), [0] * len(shape)
    for i, axis in enumerate(axes):
        aligned[axis] = old[i]
        steps[axis] = math.prod(old[i + 1 :]) if old[i] > 1 else 0
    strides = {np.dtype(kind): [step * np.dtype(kind).itemsize for step in steps] for kind in (np.float64, np.bool_)}

    def broadcast(x: np.ndarray) -> np.ndarray:
        if type(x) is not np.ndarray or x.dtype not in strides or not x.flags.c_contiguous or not x.size:
            return np.broadcast_to(np.reshape(x, aligned), shape)
        # What `np.broadcast_to` returns, in an eighth of its time.
        y = np.ndarray(shape, x.dtype, x, 0, strides[x.dtype])
        y.flags.writeable = False
        return y

    return broadcast


def reshaped(x: np.ndarray, new_sizes: Sequence[int], dimensions: Sequence[int] | None, **_: Any) -> np.ndarray:
    """The value of reshape, of the axes in another order."""
    return np.reshape(x if dimensions is None else np.transpose(x, dimensions), tuple(new_sizes))


def sliced(
    x: np.ndarray, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None
) -> np.ndarray:
    """The value of slice."""
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def split(x: np.ndarray, sizes: Sequence[int], axis: int) -> list[np.ndarray]:
    """The values of split, along one axis."""
    return np.split(x, np.cumsum(sizes)[:-1], axis)
