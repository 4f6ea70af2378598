"""The picture of an error: its entries as rows and columns."""

from __future__ import annotations

import numpy as np

_MOST = 48  # rows and columns


def heat_map(ratio: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Ratios as rows and columns, leading axes as rows; of at most 48 x 48 blocks, the largest in each."""
    matrix = np.atleast_2d(ratio.reshape(-1, ratio.shape[-1]) if ratio.ndim else ratio)
    for axis in (0, 1):
        count = min(matrix.shape[axis], _MOST)
        edges = np.unique(np.linspace(0, matrix.shape[axis], count, endpoint=False, dtype=int))
        matrix = np.maximum.reduceat(matrix, edges, axis=axis)
    return tuple(tuple(float(x) for x in row) for row in matrix)
