"""Poolings. Of equal entries of a window the first is its maximum and has its derivative; of several NaN the last."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._arrays import Ints, per_axis, read_at, take, weighted
from jax_ref.aten._checks import positive

Array = jax.Array


def _outputs(n: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows an axis has; with ceil_mode also one that goes beyond the end but begins before."""
    positive("a pool", kernel_size=kernel, stride=stride, dilation=dilation)
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if count < 1:
        raise ValueError(f"a window of {kernel} does not fit into an axis of {n} with a padding of {padding}")
    return count - 1 if ceil_mode and (count - 1) * stride >= n + padding else count


def _averaged(
    self: ArrayLike,
    axes: int,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Array:
    x = jnp.asarray(self)
    kernel, border = per_axis(kernel_size, axes), per_axis(padding, axes)
    steps = per_axis(stride, axes) if isinstance(stride, int) or len(stride) else kernel
    counts = np.ones((), int)
    for i, (k, s, p) in enumerate(zip(kernel, steps, border, strict=True)):
        axis = x.ndim - axes + i
        n = x.shape[axis]
        start = np.arange(_outputs(n, k, s, p, 1, ceil_mode)) * s - p
        index = start[:, None] + np.arange(k)
        x = weighted(x, index, (index >= 0) & (index < n), axis)
        end = np.minimum(start + k, n + p)
        count = end - start if count_include_pad else np.minimum(end, n) - np.maximum(start, 0)
        counts = np.multiply.outer(counts, count)
    return _divided(x, counts if divisor_override is None else np.full(counts.shape, divisor_override))


def _divided(x: Array, counts: np.ndarray) -> Array:
    """x over the counts of its last axes, integers rounded to 0."""
    shape = (1,) * (x.ndim - counts.ndim) + counts.shape
    return lax.div(x, jnp.broadcast_to(jnp.asarray(counts, x.dtype).reshape(shape), x.shape))


def avg_pool1d(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The means of windows along the last axis."""
    return _averaged(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The means of windows along the last two axes, or their sums over a divisor.

    self (*, h, w).

    >>> aten.avg_pool2d(jnp.array([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    Array([[[2.5]]], dtype=float32)
    """
    return _averaged(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The means of windows along the last three axes, or their sums over a divisor."""
    return _averaged(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _adaptive(n: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the windows of an axis that is divided into so many, and which of them are in the window."""
    start, end = np.arange(out) * n // out, -(-(np.arange(out) + 1) * n // out)
    index = start[:, None] + np.arange(int((end - start).max(initial=0)))
    return index, index < end[:, None]


def _adaptive_averaged(self: ArrayLike, output_size: Ints, axes: int) -> Array:
    x, counts = jnp.asarray(self), np.ones((), int)
    for i, out in enumerate(per_axis(output_size, axes)):
        axis = x.ndim - axes + i
        index, part = _adaptive(x.shape[axis], out)
        x = weighted(x, index, part, axis)
        counts = np.multiply.outer(counts, part.sum(1))
    return _divided(x, counts)


def adaptive_avg_pool1d(self: ArrayLike, output_size: Ints) -> Array:
    """The means of as many windows along the last axis."""
    return _adaptive_averaged(self, output_size, 1)


def adaptive_avg_pool2d(self: ArrayLike, output_size: Ints) -> Array:
    """The means of as many windows along the last two axes."""
    return _adaptive_averaged(self, output_size, 2)


def adaptive_avg_pool3d(self: ArrayLike, output_size: Ints) -> Array:
    """The means of as many windows along the last three axes."""
    return _adaptive_averaged(self, output_size, 3)


def _largest(windows: Array, part: Array, flat: Array) -> tuple[Array, Array]:
    """The largest entries of the last axis that are part of the windows, and their indices."""
    values = lax.stop_gradient(windows)
    floating = jnp.issubdtype(values.dtype, jnp.floating)
    lowest = -jnp.inf if floating else jnp.iinfo(values.dtype).min
    nan = jnp.isnan(values) & part
    top = jnp.where(part & ~nan, values, jnp.full_like(values, lowest)).max(-1, keepdims=True)
    first = jnp.argmax(part & (values == top), -1, keepdims=True)
    last = windows.shape[-1] - 1 - jnp.argmax(nan[..., ::-1], -1, keepdims=True)
    chosen = jnp.where(nan.any(-1, keepdims=True), last, first)
    value = jnp.where(nan.any(-1, keepdims=True), jnp.full_like(top, jnp.nan), top) if floating else top
    places = jnp.take_along_axis(jnp.broadcast_to(flat, windows.shape), chosen, -1)
    return read_at(windows, chosen, -1, value)[..., 0], places[..., 0]


def _maxima(x: Array, indices: Sequence[np.ndarray], parts: Sequence[np.ndarray]) -> tuple[Array, Array]:
    """The maxima of windows along the last axes; the indices of an axis have the shape (windows, kernel)."""
    axes = len(indices)
    sizes, lead = x.shape[-axes:], x.ndim - axes
    flat, part = np.zeros((1,) * 2 * axes, int), np.ones((1,) * 2 * axes, bool)
    for i, (index, within) in enumerate(zip(indices, parts, strict=True)):
        shape = [1] * 2 * axes
        shape[2 * i], shape[2 * i + 1] = index.shape
        inside = np.where(within, index, 0)
        flat, part = flat * sizes[i] + inside.reshape(shape), part & within.reshape(shape)
        x = take(x, inside, lead + 2 * i)
    order = [*range(0, 2 * axes, 2), *range(1, 2 * axes, 2)]
    windows = x.transpose(*range(lead), *(lead + i for i in order))
    windows = windows.reshape(*windows.shape[: lead + axes], math.prod(windows.shape[lead + axes :]))
    shape = (1,) * lead + windows.shape[lead:]
    flat, part = (jnp.asarray(each.transpose(order).reshape(shape)) for each in (flat, part))
    return _largest(windows, jnp.broadcast_to(part, windows.shape), flat)


def _max_pooled(
    self: ArrayLike, axes: int, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    x = jnp.asarray(self)
    kernel, border, spread = (per_axis(each, axes) for each in (kernel_size, padding, dilation))
    steps = per_axis(stride, axes) if isinstance(stride, int) or len(stride) else kernel
    indices, parts = [], []
    for n, k, s, p, d in zip(x.shape[-axes:], kernel, steps, border, spread, strict=True):
        index = (np.arange(_outputs(n, k, s, p, d, ceil_mode)) * s - p)[:, None] + np.arange(k) * d
        indices.append(index)
        parts.append((index >= 0) & (index < n))
    return _maxima(x, indices, parts)


def max_pool1d_with_indices(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The maxima of windows along the last axis, and their indices."""
    return _max_pooled(self, 1, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The maxima of windows along the last two axes, and their indices in these axes taken as one."""
    return _max_pooled(self, 2, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The maxima of windows along the last three axes, and their indices in these axes taken as one."""
    return _max_pooled(self, 3, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Array:
    """The maxima of windows along the last axis."""
    return _max_pooled(self, 1, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool2d(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Array:
    """The maxima of windows along the last two axes.

    self (*, h, w).

    >>> aten.max_pool2d(jnp.array([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    Array([[[4.]]], dtype=float32)
    """
    return _max_pooled(self, 2, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool3d(
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Array:
    """The maxima of windows along the last three axes."""
    return _max_pooled(self, 3, kernel_size, stride, padding, dilation, ceil_mode)[0]


def _adaptive_maxima(self: ArrayLike, output_size: Ints, axes: int) -> tuple[Array, Array]:
    x = jnp.asarray(self)
    found = [_adaptive(n, out) for n, out in zip(x.shape[-axes:], per_axis(output_size, axes), strict=True)]
    return _maxima(x, [index for index, _ in found], [part for _, part in found])


def adaptive_max_pool1d(self: ArrayLike, output_size: Ints) -> tuple[Array, Array]:
    """The maxima of as many windows along the last axis, and their indices."""
    return _adaptive_maxima(self, output_size, 1)


def adaptive_max_pool2d(self: ArrayLike, output_size: Ints) -> tuple[Array, Array]:
    """The maxima of as many windows along the last two axes, and their indices in these axes taken as one."""
    return _adaptive_maxima(self, output_size, 2)


def adaptive_max_pool3d(self: ArrayLike, output_size: Ints) -> tuple[Array, Array]:
    """The maxima of as many windows along the last three axes, and their indices in these axes taken as one."""
    return _adaptive_maxima(self, output_size, 3)


def _fractional(
    self: ArrayLike, kernel_size: Ints, output_size: Ints, samples: Array, axes: int
) -> tuple[Array, Array]:
    """The samples, for each axis of each channel, say where the windows begin."""
    x = jnp.asarray(self)
    batched = x if x.ndim == axes + 2 else x[None]
    sizes = batched.shape[2:]
    kernel, outputs = per_axis(kernel_size, axes), per_axis(output_size, axes)
    number, lead = jnp.asarray(0).dtype, batched.shape[:2]
    flat = jnp.zeros((*lead, *(1,) * 2 * axes), number)
    for i, (n, k, out) in enumerate(zip(sizes, kernel, outputs, strict=True)):
        sample = lax.stop_gradient(samples[:, :, i, None])
        steps = jnp.arange(out - 1, dtype=sample.dtype)[None, None]
        alpha = (n - k) / (out - 1) if out > 1 else 0.0
        start = jnp.trunc((steps + sample) * alpha) - jnp.trunc(sample * alpha)
        start = jnp.concatenate([start.astype(number), jnp.full((*lead, 1), n - k, number)], 2)
        shape = (*lead, *(d for j in range(axes) for d in ((out if j == i else 1),)), *(1,) * axes)
        index = start.reshape(shape) + jnp.arange(k, dtype=number).reshape(
            (1,) * (2 + axes + i) + (k,) + (1,) * (axes - i - 1)
        )
        flat = flat * n + index
    lines = batched.reshape(*lead, math.prod(sizes))
    windows = jnp.take_along_axis(lines, flat.reshape(*lead, math.prod(outputs) * math.prod(kernel)), 2)
    windows, flat = (each.reshape(*lead, *outputs, math.prod(kernel)) for each in (windows, flat))
    values, indices = _largest(windows, jnp.ones(windows.shape, bool), flat)
    return (values, indices) if x.ndim == axes + 2 else (values[0], indices[0])


def fractional_max_pool2d(
    self: ArrayLike, kernel_size: Ints, output_size: Ints, random_samples: ArrayLike
) -> tuple[Array, Array]:
    """The maxima of windows at the places that samples between 0 and 1 say, of the last axis first; their indices."""
    return _fractional(self, kernel_size, output_size, jnp.asarray(random_samples)[:, :, ::-1], 2)


def fractional_max_pool3d(
    self: ArrayLike, kernel_size: Ints, output_size: Ints, random_samples: ArrayLike
) -> tuple[Array, Array]:
    """The maxima of windows at the places that samples between 0 and 1 say, and their indices."""
    return _fractional(self, kernel_size, output_size, jnp.asarray(random_samples), 3)


def _unpooled(self: ArrayLike, indices: ArrayLike, output_size: Sequence[int]) -> Array:
    x = jnp.asarray(self)
    lead = x.shape[: x.ndim - len(output_size)]
    channels = math.prod(lead)
    rows = np.arange(channels)[:, None]
    flat = jnp.zeros((channels, math.prod(output_size)), x.dtype)
    count = math.prod(x.shape[len(lead) :])
    flat = flat.at[rows, jnp.asarray(indices).reshape(channels, count)].set(x.reshape(channels, count))
    return flat.reshape(*lead, *output_size)


def max_unpool2d(self: ArrayLike, indices: ArrayLike, output_size: Sequence[int]) -> Array:
    """The entries at their indices in the last two axes taken as one, 0 elsewhere."""
    return _unpooled(self, indices, output_size)


def max_unpool3d(self: ArrayLike, indices: ArrayLike, output_size: Sequence[int], stride: Ints, padding: Ints) -> Array:
    """The entries at their indices in the last three axes taken as one, 0 elsewhere."""
    return _unpooled(self, indices, output_size)


OPERATORS = {"_adaptive_avg_pool2d": adaptive_avg_pool2d, "_adaptive_avg_pool3d": adaptive_avg_pool3d}
