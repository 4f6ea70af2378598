"""ATen's backward operators of the poolings."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten import pooling
from jax_ref.aten._arrays import Ints, pullback

Array = jax.Array


def avg_pool2d_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """grad_output spread over the windows of avg_pool2d."""
    settings = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return pullback(lambda x: pooling.avg_pool2d(x, *settings), [jnp.asarray(self)], grad_output)[0]


def avg_pool3d_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """grad_output spread over the windows of avg_pool3d."""
    settings = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return pullback(lambda x: pooling.avg_pool3d(x, *settings), [jnp.asarray(self)], grad_output)[0]


def _adaptive_avg_pool2d_backward(grad_output: ArrayLike, self: ArrayLike) -> Array:
    """grad_output spread over the windows of _adaptive_avg_pool2d."""
    size = jnp.shape(grad_output)[-2:]
    return pullback(lambda x: pooling.adaptive_avg_pool2d(x, size), [jnp.asarray(self)], grad_output)[0]


def _adaptive_avg_pool3d_backward(grad_output: ArrayLike, self: ArrayLike) -> Array:
    """grad_output spread over the windows of _adaptive_avg_pool3d."""
    size = jnp.shape(grad_output)[-3:]
    return pullback(lambda x: pooling.adaptive_avg_pool3d(x, size), [jnp.asarray(self)], grad_output)[0]


def _scattered(grad_output: ArrayLike, self: ArrayLike, indices: ArrayLike, axes: int) -> Array:
    """The sums of the entries of grad_output at their indices in the last axes taken as one."""
    g, shape = jnp.asarray(grad_output), jnp.shape(self)
    channels = math.prod(shape[: len(shape) - axes])
    flat = jnp.zeros((channels, math.prod(shape[len(shape) - axes :])), g.dtype)
    rows = np.arange(channels)[:, None]
    places = jnp.asarray(indices).reshape(channels, math.prod(g.shape[g.ndim - axes :]))
    return flat.at[rows, places].add(g.reshape(places.shape)).reshape(shape)


def max_pool2d_with_indices_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: ArrayLike,
) -> Array:
    """The sums of the entries of grad_output at their indices."""
    return _scattered(grad_output, self, indices, 2)


def max_pool3d_with_indices_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: ArrayLike,
) -> Array:
    """The sums of the entries of grad_output at their indices."""
    return _scattered(grad_output, self, indices, 3)


def max_pool2d_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> Array:
    """The sums of the entries of grad_output at the maxima of max_pool2d."""
    settings = (kernel_size, stride, padding, dilation, ceil_mode)
    return pullback(lambda x: pooling.max_pool2d(x, *settings), [jnp.asarray(self)], grad_output)[0]


def adaptive_max_pool2d_backward(grad_output: ArrayLike, self: ArrayLike, indices: ArrayLike) -> Array:
    """The sums of the entries of grad_output at their indices."""
    return _scattered(grad_output, self, indices, 2)


def adaptive_max_pool3d_backward(grad_output: ArrayLike, self: ArrayLike, indices: ArrayLike) -> Array:
    """The sums of the entries of grad_output at their indices."""
    return _scattered(grad_output, self, indices, 3)


def fractional_max_pool2d_backward(
    grad_output: ArrayLike, self: ArrayLike, kernel_size: Ints, output_size: Ints, indices: ArrayLike
) -> Array:
    """The sums of the entries of grad_output at their indices."""
    return _scattered(grad_output, self, indices, 2)


def fractional_max_pool3d_backward(
    grad_output: ArrayLike, self: ArrayLike, kernel_size: Ints, output_size: Ints, indices: ArrayLike
) -> Array:
    """The sums of the entries of grad_output at their indices."""
    return _scattered(grad_output, self, indices, 3)


OPERATORS = {
    "_adaptive_avg_pool2d_backward": _adaptive_avg_pool2d_backward,
    "_adaptive_avg_pool3d_backward": _adaptive_avg_pool3d_backward,
}
