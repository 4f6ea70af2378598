"""Convolutions along one to three axes, and windows of images as columns."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._arrays import Ints, per_axis, take
from jax_ref.aten._checks import positive, same
from jax_ref.aten._promotion import is_complex
from jax_ref.aten.padding import constant_pad_nd

Array = jax.Array
Maybe = ArrayLike | None


def _correlated(
    x: Array, w: Array, stride: Sequence[int], padding: Sequence[tuple[int, int]], within: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    """Σ x[i stride + k dilation - padding] w[k], of complex numbers by their parts; within: steps between entries."""
    if is_complex(x):
        parts = [
            _correlated(a, b, stride, padding, within, dilation, groups)
            for a, b in ((x.real, w.real), (x.imag, w.imag), (x.real, w.imag), (x.imag, w.real))
        ]
        return lax.complex(parts[0] - parts[1], parts[2] + parts[3])
    return lax.conv_general_dilated(
        x,
        w,
        window_strides=tuple(stride),
        padding=list(padding),
        lhs_dilation=tuple(within),
        rhs_dilation=tuple(dilation),
        feature_group_count=groups,
    )


def _check(x: Array, w: Array, bias: Maybe, transposed: bool, groups: int, stride: Ints, dilation: Ints) -> None:
    axes = w.ndim - 2
    if axes < 1 or x.ndim not in (axes + 1, axes + 2):
        raise ValueError(
            f"convolution: input must have the axes (batch, channels, ...), as many as weight, or no batch; input has "
            f"the shape {x.shape}, weight {w.shape}"
        )
    positive("convolution", groups=groups, stride=stride, dilation=dilation)
    if x.dtype != w.dtype:
        raise TypeError(f"convolution: input and weight must have one dtype, got {x.dtype} and {w.dtype}")
    channels, of_weight = x.shape[-axes - 1], w.shape[0] if transposed else w.shape[1] * groups
    needs = "as many as its first axis" if transposed else "its second axis times groups"
    same(
        "convolution",
        "the number of channels",
        (f"input {x.shape}", channels),
        (f"weight {w.shape}, {needs}", of_weight),
    )
    if w.shape[0] % groups:
        raise ValueError(f"convolution: the first axis of weight, {w.shape[0]}, is no multiple of groups, {groups}")
    if bias is not None:
        outputs = w.shape[1] * groups if transposed else w.shape[0]
        same("convolution", "the number of outputs", (f"weight {w.shape}", outputs), ("bias", jnp.size(bias)))


def convolution(
    input: ArrayLike,
    weight: ArrayLike,
    bias: Maybe,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    """The correlation of the input with the weight along all axes but two, or its transposed map, plus bias.

    input (batch, channels, h, w) or (channels, h, w), weight (out, channels / groups, h, w), bias (out,).

    >>> aten.conv2d(jnp.ones((1, 1, 3, 3)), jnp.ones((1, 1, 2, 2)))
    Array([[[[4., 4.],
             [4., 4.]]]], dtype=float32)
    """
    x, w = jnp.asarray(input), jnp.asarray(weight)
    axes = w.ndim - 2
    _check(x, w, bias, transposed, groups, stride, dilation)
    unbatched = x.ndim == axes + 1
    x = x[None] if unbatched else x
    step, border, spread, more = (per_axis(each, axes) for each in (stride, padding, dilation, output_padding))
    ones = (1,) * axes
    if transposed:
        _, outputs, *kernel = w.shape
        w = w.reshape(groups, -1, outputs, *kernel).swapaxes(1, 2).reshape(groups * outputs, -1, *kernel)
        w = jnp.flip(w, tuple(range(2, w.ndim)))
        reach = [d * (k - 1) for d, k in zip(spread, kernel, strict=True)]
        borders = [(r - b, r - b + m) for r, b, m in zip(reach, border, more, strict=True)]
        out = _correlated(x, w, ones, borders, step, spread, groups)
    else:
        out = _correlated(x, w, step, [(b, b) for b in border], ones, spread, groups)
    if bias is not None:
        out = out + jnp.asarray(bias, out.dtype).reshape(1, -1, *ones)
    return out[0] if unbatched else out


def _convolution(
    input: ArrayLike,
    weight: ArrayLike,
    bias: Maybe,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool,
) -> Array:
    """convolution."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolution_deprecated(
    input: ArrayLike,
    weight: ArrayLike,
    bias: Maybe,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
) -> Array:
    """convolution."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _conv(
    input: ArrayLike,
    weight: ArrayLike,
    bias: Maybe = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Array:
    """convolution, not transposed, with the padding "valid", none, or "same", one that keeps the size, too."""
    x, w = jnp.asarray(input), jnp.asarray(weight)
    if isinstance(padding, str):
        spread = per_axis(dilation, w.ndim - 2)
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(spread, w.shape[2:], strict=True)]
            x = constant_pad_nd(x, [n for t in total[::-1] for n in (t // 2, t - t // 2)])
        padding = 0
    return convolution(x, w, bias, stride, padding, dilation, False, 0, groups)


def _conv_transpose(
    input: ArrayLike,
    weight: ArrayLike,
    bias: Maybe = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Array:
    """The transposed convolution, along as many axes as the weight has."""
    return convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def conv_tbc(self: ArrayLike, weight: ArrayLike, bias: ArrayLike, pad: int = 0) -> Array:
    """convolution along one axis, the axes being time, batch and channels, and of the weight time, input and output."""
    x, w = jnp.asarray(self).transpose(1, 2, 0), jnp.asarray(weight).transpose(2, 1, 0)
    return convolution(x, w, bias, 1, pad, 1, False, 0, 1).transpose(2, 0, 1)


def _conv_depthwise2d(
    self: ArrayLike, weight: ArrayLike, kernel_size: Ints, bias: Maybe, stride: Ints, padding: Ints, dilation: Ints
) -> Array:
    """convolution along two axes with a group for each channel."""
    return convolution(self, weight, bias, stride, padding, dilation, False, 0, jnp.shape(self)[-3])


def conv_depthwise3d(
    self: ArrayLike, weight: ArrayLike, kernel_size: Ints, bias: Maybe, stride: Ints, padding: Ints, dilation: Ints
) -> Array:
    """convolution along three axes with a group for each channel."""
    return convolution(self, weight, bias, stride, padding, dilation, False, 0, jnp.shape(self)[-4])


def _slow_conv2d_forward(
    self: ArrayLike, weight: ArrayLike, kernel_size: Ints, bias: Maybe, stride: Ints, padding: Ints
) -> Array:
    """convolution along two axes."""
    return convolution(self, weight, bias, stride, padding, 1, False, 0, 1)


def slow_conv3d_forward(
    self: ArrayLike, weight: ArrayLike, kernel_size: Ints, bias: Maybe, stride: Ints, padding: Ints
) -> Array:
    """convolution along three axes."""
    return convolution(self, weight, bias, stride, padding, 1, False, 0, 1)


def thnn_conv2d(
    self: ArrayLike, weight: ArrayLike, kernel_size: Ints, bias: Maybe = None, stride: Ints = 1, padding: Ints = 0
) -> Array:
    """convolution along two axes."""
    return convolution(self, weight, bias, stride, padding, 1, False, 0, 1)


def slow_conv3d(
    self: ArrayLike, weight: ArrayLike, kernel_size: Ints, bias: Maybe = None, stride: Ints = 1, padding: Ints = 0
) -> Array:
    """convolution along three axes."""
    return convolution(self, weight, bias, stride, padding, 1, False, 0, 1)


def slow_conv_dilated2d(
    self: ArrayLike,
    weight: ArrayLike,
    kernel_size: Ints,
    bias: Maybe = None,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
) -> Array:
    """convolution along two axes."""
    return convolution(self, weight, bias, stride, padding, dilation, False, 0, 1)


def slow_conv_dilated3d(
    self: ArrayLike,
    weight: ArrayLike,
    kernel_size: Ints,
    bias: Maybe = None,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
) -> Array:
    """convolution along three axes."""
    return convolution(self, weight, bias, stride, padding, dilation, False, 0, 1)


def slow_conv_transpose2d(
    self: ArrayLike,
    weight: ArrayLike,
    kernel_size: Ints,
    bias: Maybe = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
) -> Array:
    """The transposed convolution along two axes."""
    return convolution(self, weight, bias, stride, padding, dilation, True, output_padding, 1)


def slow_conv_transpose3d(
    self: ArrayLike,
    weight: ArrayLike,
    kernel_size: Ints,
    bias: Maybe = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
) -> Array:
    """The transposed convolution along three axes."""
    return convolution(self, weight, bias, stride, padding, dilation, True, output_padding, 1)


def _window_indices(
    size: Sequence[int], kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> list[np.ndarray]:
    """For each axis the indices in the padded image, in the shape (kernel, windows)."""
    found = []
    settings = zip(size, *(per_axis(each, 2) for each in (kernel_size, dilation, padding, stride)), strict=True)
    for n, k, d, p, s in settings:
        windows = (n + 2 * p - d * (k - 1) - 1) // s + 1
        found.append(d * np.arange(k)[:, None] + s * np.arange(windows)[None])
    return found


def im2col(self: ArrayLike, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Array:
    """The windows of an image, with zeros around it, as columns."""
    x = jnp.asarray(self)
    below, beside = per_axis(padding, 2)
    rows, columns = _window_indices(x.shape[-2:], kernel_size, dilation, padding, stride)
    x = constant_pad_nd(x, [beside, beside, below, below])
    x = take(take(x, columns, x.ndim - 1), rows, x.ndim - 2)
    *batch, channels, kh, h, kw, w = x.shape
    return jnp.moveaxis(x, -2, -3).reshape(*batch, channels * kh * kw, h * w)


def col2im(
    self: ArrayLike, output_size: Sequence[int], kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Array:
    """The image that is the sum of the windows that the columns are."""
    x = jnp.asarray(self)
    below, beside = per_axis(padding, 2)
    rows, columns = _window_indices(output_size, kernel_size, dilation, padding, stride)
    (kh, h), (kw, w) = rows.shape, columns.shape
    *batch, depth, _ = x.shape
    windows = jnp.moveaxis(x.reshape(*batch, depth // (kh * kw), kh, kw, h, w), -3, -2)
    image = jnp.zeros((*windows.shape[:-4], output_size[0] + 2 * below, output_size[1] + 2 * beside), x.dtype)
    image = image.at[..., rows[:, :, None, None], columns[None, None]].add(windows)
    return constant_pad_nd(image, [-beside, -beside, -below, -below])


OPERATORS = {
    **{f"conv{axes}d": _conv for axes in (1, 2, 3)},
    **{f"conv_transpose{axes}d": _conv_transpose for axes in (1, 2, 3)},
    "_conv_depthwise2d": _conv_depthwise2d,
    "_convolution": _convolution,
    "_convolution.deprecated": _convolution_deprecated,
    "_slow_conv2d_forward": _slow_conv2d_forward,
}
