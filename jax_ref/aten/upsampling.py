"""Resampling of one to three axes to an output size. A scale, if given, is used in place of the ratio of sizes.

NumPy finds the neighbours of an output entry. Their weights are computed in JAX, as a part of the program, since others
round where they compute them: a constant would count as exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten._arrays import take, weighted

Array = jax.Array
Sizes = Sequence[int]
Scale = float | None
Scales = Sequence[float] | None


def _ratio(n: int, out: int, align_corners: bool, scale: Scale) -> float:
    """Input entries for an output entry."""
    if align_corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else n / out


def _nearest(self: ArrayLike, output_size: Sizes, scales: Sequence[Scale], exact: bool) -> Array:
    x = jnp.asarray(self)
    images = len(output_size) == 2 and not exact
    for i, (out, scale) in enumerate(zip(output_size, scales, strict=True)):
        axis = x.ndim - len(output_size) + i
        n = x.shape[axis]
        if images and out in (n, 2 * n):  # whatever the scale is
            scale = None
        # PyTorch rounds to float32 before the floor
        place = ((np.arange(out) + (0.5 if exact else 0.0)) * _ratio(n, out, False, scale)).astype(np.float32)
        x = take(x, np.clip(np.floor(place).astype(int), 0, n - 1), axis)
    return x


def upsample_nearest1d(self: ArrayLike, output_size: Sizes, scales: Scale = None) -> Array:
    """The entry at the output's index over the scale, rounded down, along the last axis."""
    return _nearest(self, output_size, [scales], False)


def upsample_nearest2d(self: ArrayLike, output_size: Sizes, scales_h: Scale = None, scales_w: Scale = None) -> Array:
    """The entry at the output's index over the scale, rounded down, along the last two axes."""
    return _nearest(self, output_size, [scales_h, scales_w], False)


def upsample_nearest3d(
    self: ArrayLike, output_size: Sizes, scales_d: Scale = None, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """The entry at the output's index over the scale, rounded down, along the last three axes."""
    return _nearest(self, output_size, [scales_d, scales_h, scales_w], False)


def _upsample_nearest_exact1d(self: ArrayLike, output_size: Sizes, scales: Scale = None) -> Array:
    """The entry that the centre of the output's entry is in, along the last axis."""
    return _nearest(self, output_size, [scales], True)


def _upsample_nearest_exact2d(
    self: ArrayLike, output_size: Sizes, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """The entry that the centre of the output's entry is in, along the last two axes."""
    return _nearest(self, output_size, [scales_h, scales_w], True)


def _upsample_nearest_exact3d(
    self: ArrayLike, output_size: Sizes, scales_d: Scale = None, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """The entry that the centre of the output's entry is in, along the last three axes."""
    return _nearest(self, output_size, [scales_d, scales_h, scales_w], True)


Kernel = Callable[
    [Array, np.ndarray], Array
]  # of the distance t, and of what NumPy has for it, which chooses the branch


def _real(x: Array) -> jnp.dtype:
    """The dtype of weights: at least float32, as PyTorch has them."""
    return jnp.promote_types(x.dtype, jnp.float32)


def _hat(t: Array, at: np.ndarray) -> Array:
    """1 - |t|, and 0 beyond 1."""
    return jnp.where(np.abs(at) < 1, 1 - jnp.abs(t), jnp.zeros_like(t))


def _cubic(a: float) -> Kernel:
    """Keys' cubic kernel, which is 0 beyond 2, with its slope a at 1."""

    def kernel(t: Array, at: np.ndarray) -> Array:
        t, at = jnp.abs(t), np.abs(at)
        near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((t - 5) * t + 8) * t * a - 4 * a
        return jnp.where(at < 1, near, jnp.where(at < 2, far, jnp.zeros_like(t)))

    return kernel


def _lanczos(t: Array, at: np.ndarray) -> Array:
    """sinc(t) sinc(t / 3), and 0 beyond 3."""

    def sinc(t: Array) -> Array:
        angle = jnp.where(at == 0, jnp.ones_like(t), np.pi * t)
        return jnp.where(at == 0, jnp.ones_like(t), jnp.sin(angle) / angle)

    return jnp.where(np.abs(at) < 3, sinc(t) * sinc(t / 3), jnp.zeros_like(t))


def _linear(self: ArrayLike, output_size: Sizes, align_corners: bool, scales: Sequence[Scale]) -> Array:
    x = jnp.asarray(self)
    for i, (out, scale) in enumerate(zip(output_size, scales, strict=True)):
        axis = x.ndim - len(output_size) + i
        n = x.shape[axis]
        if out == n:  # whatever the scale is
            continue
        place, at = _places(x, out, _ratio(n, out, align_corners, scale), align_corners)
        index = np.minimum(np.floor(np.maximum(at, 0)).astype(int), n - 1)
        part = jnp.clip(place - index, 0, 1)
        neighbours = np.stack([index, np.minimum(index + 1, n - 1)], 1)
        x = weighted(x, neighbours, np.ones(neighbours.shape, bool), axis, jnp.stack([1 - part, part], 1))
    return x


def _places(x: Array, out: int, ratio: float, align_corners: bool) -> tuple[Array, np.ndarray]:
    """Where each output entry is between the input's, in JAX and in NumPy."""
    number = jnp.arange(out, dtype=_real(x))
    if align_corners:
        return ratio * number, ratio * np.arange(out)
    return ratio * (number + 0.5) - 0.5, ratio * (np.arange(out) + 0.5) - 0.5


def upsample_linear1d(self: ArrayLike, output_size: Sizes, align_corners: bool, scales: Scale = None) -> Array:
    """Linear interpolation along the last axis, constant beyond the centres of its ends."""
    return _linear(self, output_size, align_corners, [scales])


def upsample_bilinear2d(
    self: ArrayLike, output_size: Sizes, align_corners: bool, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """Linear interpolation along the last two axes."""
    return _linear(self, output_size, align_corners, [scales_h, scales_w])


def upsample_trilinear3d(
    self: ArrayLike,
    output_size: Sizes,
    align_corners: bool,
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Array:
    """Linear interpolation along the last three axes."""
    return _linear(self, output_size, align_corners, [scales_d, scales_h, scales_w])


def upsample_bicubic2d(
    self: ArrayLike, output_size: Sizes, align_corners: bool, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """Cubic interpolation with the slope -3/4 along the last two axes, whose ends are repeated."""
    x, kernel = jnp.asarray(self), _cubic(-0.75)
    for axis, out, scale in zip((x.ndim - 2, x.ndim - 1), output_size, (scales_h, scales_w), strict=True):
        n = x.shape[axis]
        place, at = _places(x, out, _ratio(n, out, align_corners, scale), align_corners)
        index = np.floor(at).astype(int)[:, None] + np.arange(-1, 3)
        weight = kernel(place[:, None] - index, at[:, None] - index)
        x = weighted(x, np.clip(index, 0, n - 1), np.ones(index.shape, bool), axis, weight)
    return x


def _antialiased(
    self: ArrayLike,
    output_size: Sizes,
    align_corners: bool,
    scales: Sequence[Scale],
    kernel: Kernel,
    reach: float,
) -> Array:
    """Interpolation by a kernel that is as much wider as the output is smaller, its weights over their sum."""
    x = jnp.asarray(self)
    for axis, out, scale in zip((x.ndim - 2, x.ndim - 1), output_size, scales, strict=True):
        n = x.shape[axis]
        if out == n:  # whatever the scale is
            continue
        ratio = _ratio(n, out, align_corners, scale)
        wide = max(ratio, 1.0)
        centre = ratio * (np.arange(out) + 0.5)
        first = np.maximum((centre - reach * wide + 0.5).astype(int), 0)
        end = np.minimum((centre + reach * wide + 0.5).astype(int), n)
        index = first[:, None] + np.arange(int((end - first).max(initial=1)))
        part = index < end[:, None]
        place = ratio * (jnp.arange(out, dtype=_real(x)) + 0.5)
        weight = kernel((jnp.asarray(index) - place[:, None] + 0.5) / wide, (index - centre[:, None] + 0.5) / wide)
        weight = jnp.where(part, weight, jnp.zeros_like(weight))
        x = weighted(x, index, part, axis, weight / weight.sum(1, keepdims=True))
    return x


def _upsample_bilinear2d_aa(
    self: ArrayLike, output_size: Sizes, align_corners: bool, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """Interpolation along the last two axes by a hat, which is wider where the output is smaller."""
    return _antialiased(self, output_size, align_corners, [scales_h, scales_w], _hat, 1.0)


def _upsample_bicubic2d_aa(
    self: ArrayLike, output_size: Sizes, align_corners: bool, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """Interpolation along the last two axes by the cubic kernel with slope -1/2, wider where the output is smaller."""
    return _antialiased(self, output_size, align_corners, [scales_h, scales_w], _cubic(-0.5), 2.0)


def _upsample_lanczos2d_aa(
    self: ArrayLike, output_size: Sizes, align_corners: bool, scales_h: Scale = None, scales_w: Scale = None
) -> Array:
    """Interpolation along the last two axes by sinc(t) sinc(t / 3), which is wider where the output is smaller."""
    return _antialiased(self, output_size, align_corners, [scales_h, scales_w], _lanczos, 3.0)


def _settings(x: Array, output_size: Sizes | None, scale_factors: Scales) -> tuple[list[int], list[Scale]]:
    """The output size, if it is not given, by the scales, and a scale or None for each axis."""
    if scale_factors is None:
        assert output_size is not None
        return list(output_size), [None] * len(output_size)
    sizes = x.shape[2:]
    return [math.floor(n * s) for n, s in zip(sizes, scale_factors, strict=True)], list(scale_factors)


def _vec(resample: Callable[..., Array]) -> Callable[..., Array]:
    """The overload that takes an output size, or scales for all axes in place of it."""

    def resampled(input: ArrayLike, output_size: Sizes | None, scale_factors: Scales) -> Array:
        """The resampling to an output size, or by scales in place of it."""
        sizes, scales = _settings(jnp.asarray(input), output_size, scale_factors)
        return resample(input, sizes, *scales)

    return resampled


def _vec_aligned(resample: Callable[..., Array]) -> Callable[..., Array]:
    """The overload that takes an output size, or scales for all axes in place of it."""

    def resampled(input: ArrayLike, output_size: Sizes | None, align_corners: bool, scale_factors: Scales) -> Array:
        """The resampling to an output size, or by scales in place of it."""
        sizes, scales = _settings(jnp.asarray(input), output_size, scale_factors)
        return resample(input, sizes, align_corners, *scales)

    return resampled


_NEAREST = {
    "upsample_nearest1d": upsample_nearest1d,
    "upsample_nearest2d": upsample_nearest2d,
    "upsample_nearest3d": upsample_nearest3d,
    "_upsample_nearest_exact1d": _upsample_nearest_exact1d,
    "_upsample_nearest_exact2d": _upsample_nearest_exact2d,
    "_upsample_nearest_exact3d": _upsample_nearest_exact3d,
}
_ALIGNED = {
    "upsample_linear1d": upsample_linear1d,
    "upsample_bilinear2d": upsample_bilinear2d,
    "upsample_trilinear3d": upsample_trilinear3d,
    "upsample_bicubic2d": upsample_bicubic2d,
    "_upsample_bicubic2d_aa": _upsample_bicubic2d_aa,
    "_upsample_bilinear2d_aa": _upsample_bilinear2d_aa,
    "_upsample_lanczos2d_aa": _upsample_lanczos2d_aa,
}
OPERATORS = {
    **{name: function for name, function in (_NEAREST | _ALIGNED).items() if name.startswith("_")},
    **{f"{name}.vec": _vec(function) for name, function in _NEAREST.items()},
    **{f"{name}.vec": _vec_aligned(function) for name, function in _ALIGNED.items()},
}
