"""Convolutions and padding in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_MOST_COPIED = 2**20  # entries of windows at a time


def padded(x: np.ndarray, value: np.ndarray, padding_config: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """lax.pad: `value` around the entries, and between them; a negative width cuts off."""
    sizes = [
        low + max(n + (n - 1) * inner, 0) + high for n, (low, high, inner) in zip(x.shape, padding_config, strict=True)
    ]
    wide = [max(n + (n - 1) * inner, 0) for n, (_, _, inner) in zip(x.shape, padding_config, strict=True)]
    dilated = np.full(wide, value, x.dtype)
    dilated[tuple(slice(None, None, inner + 1) for _, _, inner in padding_config)] = x
    kept = dilated[
        tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high, _) in zip(wide, padding_config, strict=True))
    ]
    padded = np.full(sizes, value, x.dtype)
    start = [max(low, 0) for low, _, _ in padding_config]
    padded[tuple(slice(a, a + n) for a, n in zip(start, kept.shape, strict=True))] = kept
    return padded


def convolved(
    x: np.ndarray,
    w: np.ndarray,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    **_: Any,
) -> np.ndarray:
    """conv_general_dilated, as one product of matrices for each group: of all windows, and of the weights."""
    of_x, of_w, of_y = dimension_numbers
    x, w = np.transpose(x, of_x), np.transpose(w, of_w)
    inner = [(low, high, step - 1) for (low, high), step in zip(padding, lhs_dilation, strict=True)]
    x = padded(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *inner])
    kernel, spatial = w.shape[2:], x.shape[2:]
    groups = feature_group_count * batch_group_count  # one of the two is 1
    N, C, features = x.shape[0] // batch_group_count, x.shape[1] // feature_group_count, w.shape[0] // groups
    x = np.moveaxis(x.reshape(batch_group_count, N, feature_group_count, C, *spatial), 2, 1)
    x = np.ascontiguousarray(x.reshape(groups, N, C, *spatial))
    spans = [(k - 1) * step + 1 for k, step in zip(kernel, rhs_dilation, strict=True)]
    sizes = [max((n - span) // s + 1, 0) for n, span, s in zip(spatial, spans, window_strides, strict=True)]
    along = x.strides[3:]
    steps = [stride * s for stride, s in zip(along, window_strides, strict=True)]
    taps = [stride * s for stride, s in zip(along, rhs_dilation, strict=True)]
    windows = np.lib.stride_tricks.as_strided(
        x, (*x.shape[:3], *sizes, *kernel), (*x.strides[:3], *steps, *taps), writeable=False
    )
    y = _of_windows(windows, w.reshape(groups, features, C * math.prod(kernel)), len(kernel))
    y = np.moveaxis(y, 2, 0).reshape(N, groups * features, *sizes)
    return np.transpose(y, np.argsort(of_y))


def _of_windows(windows: np.ndarray, weights: np.ndarray, d: int) -> np.ndarray:
    """(groups, N, C, sizes, kernel) and (groups, features, C x kernel) -> (groups, features, N, sizes).

    Of as many examples at a time as the processor keeps near; what lies one after the other in memory is copied so.
    """
    (groups, N), sizes, (_, features, terms) = windows.shape[:2], windows.shape[3 : 3 + d], weights.shape
    count = math.prod(sizes)
    at_once = max(1, _MOST_COPIED // max(1, groups * count * terms))
    y = np.empty((groups, features, N, *sizes), np.result_type(windows, weights))
    for start in range(0, N, at_once):
        some = windows[:, start : start + at_once]
        n = some.shape[1]
        if sizes[-1:] >= windows.shape[-1:]:
            some = some.transpose(0, 2, *range(3 + d, 3 + 2 * d), 1, *range(3, 3 + d))
            part = weights @ some.reshape(groups, terms, n * count)
        else:
            some = some.transpose(0, 1, *range(3, 3 + d), 2, *range(3 + d, 3 + 2 * d))
            part = np.swapaxes(some.reshape(groups, n * count, terms) @ np.swapaxes(weights, 1, 2), 1, 2)
        y[:, :, start : start + n] = part.reshape(groups, features, n, *sizes)
    return y
