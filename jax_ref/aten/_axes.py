"""Axes as PyTorch counts them: from the first one, or backwards from the last."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

Axes = int | Sequence[int] | None


def axis_of(x: jax.Array, dim: int, more: int = 0) -> int:
    """Return the number of an axis from 0 on; a single number has an axis 0, as in PyTorch.

    Args:
        x: an array of any shape.
        dim: the axis, counted from the last one if it is negative.
        more: the number of axes that are counted besides those of x.

    Raises:
        IndexError: x has no such axis.
    """
    if not isinstance(dim, int | np.integer):
        raise TypeError(f"dim must be an integer, got {dim!r}")
    count = max(x.ndim + more, 1)
    if not -count <= dim < count:
        raise IndexError(
            f"dim is out of range: expected one of [{-count}, {count - 1}] for an array of shape {x.shape}, got {dim}"
        )
    return dim % count


def axes_of(x: jax.Array, dim: Axes) -> tuple[int, ...]:
    """Return the numbers of axes from 0 on: of all axes if dim is None or empty.

    Raises:
        IndexError: x has no such axis.
        ValueError: an axis is named twice.
    """
    if dim is not None and not isinstance(dim, int | np.integer | Sequence | np.ndarray):
        raise TypeError(f"dim must be an integer or a sequence of them, got {dim!r}")
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(x.ndim))
    found = [axis_of(x, axis) for axis in ((dim,) if isinstance(dim, int) else dim)]
    twice = next((axis for axis in found if found.count(axis) > 1), None)
    if twice is not None:
        raise ValueError(f"dim has the axis {twice} twice: {dim}")
    return tuple(found) if x.ndim else ()
