"""ATen's backward operators of resampling, grids and paddings, all but those of grids linear in grad_output alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_ref.aten import grids, padding, upsampling
from jax_ref.aten._arrays import pullback

Array = jax.Array
Sizes = Sequence[int]
Scale = float | None


def _transposed(resample: Callable[..., Array], grad_output: ArrayLike, size: Sizes, *settings) -> Array:
    """The transposed map of a linear one of arrays of a size."""
    g = jnp.asarray(grad_output)
    return pullback(lambda x: resample(x, *settings), [jnp.zeros(tuple(size), g.dtype)], g)[0]


def _nearest1d(resample: Callable[..., Array]) -> Callable[..., Array]:
    def backward(grad_output: ArrayLike, output_size: Sizes, input_size: Sizes, scales: Scale = None) -> Array:
        """The sums of the entries of grad_output that come from each entry."""
        return _transposed(resample, grad_output, input_size, output_size, scales)

    return backward


def _nearest2d(resample: Callable[..., Array]) -> Callable[..., Array]:
    def backward(
        grad_output: ArrayLike, output_size: Sizes, input_size: Sizes, scales_h: Scale = None, scales_w: Scale = None
    ) -> Array:
        """The sums of the entries of grad_output that come from each entry."""
        return _transposed(resample, grad_output, input_size, output_size, scales_h, scales_w)

    return backward


def _nearest3d(resample: Callable[..., Array]) -> Callable[..., Array]:
    def backward(
        grad_output: ArrayLike,
        output_size: Sizes,
        input_size: Sizes,
        scales_d: Scale = None,
        scales_h: Scale = None,
        scales_w: Scale = None,
    ) -> Array:
        """The sums of the entries of grad_output that come from each entry."""
        return _transposed(resample, grad_output, input_size, output_size, scales_d, scales_h, scales_w)

    return backward


def _aligned2d(resample: Callable[..., Array]) -> Callable[..., Array]:
    def backward(
        grad_output: ArrayLike,
        output_size: Sizes,
        input_size: Sizes,
        align_corners: bool,
        scales_h: Scale = None,
        scales_w: Scale = None,
    ) -> Array:
        """The sums of the entries of grad_output, with the weights that each entry has in them."""
        return _transposed(resample, grad_output, input_size, output_size, align_corners, scales_h, scales_w)

    return backward


def upsample_linear1d_backward(
    grad_output: ArrayLike, output_size: Sizes, input_size: Sizes, align_corners: bool, scales: Scale = None
) -> Array:
    """The sums of the entries of grad_output, with the weights that each entry has in them."""
    return _transposed(upsampling.upsample_linear1d, grad_output, input_size, output_size, align_corners, scales)


def upsample_trilinear3d_backward(
    grad_output: ArrayLike,
    output_size: Sizes,
    input_size: Sizes,
    align_corners: bool,
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Array:
    """The sums of the entries of grad_output, with the weights that each entry has in them."""
    settings = (output_size, align_corners, scales_d, scales_h, scales_w)
    return _transposed(upsampling.upsample_trilinear3d, grad_output, input_size, *settings)


def _grid_sampler_backward(
    grad_output: ArrayLike,
    input: ArrayLike,
    grid: ArrayLike,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array]:
    """The gradients of the input, or None if output_mask does not ask for it, and of the grid."""
    settings = (interpolation_mode, padding_mode, align_corners)
    primals = [jnp.asarray(input), jnp.asarray(grid)]
    in_input, in_grid = pullback(lambda x, g: grids.grid_sampler(x, g, *settings), primals, grad_output)
    return in_input if output_mask[0] else None, in_grid


def affine_grid_generator_backward(grad: ArrayLike, size: Sizes, align_corners: bool) -> Array:
    """The gradient of theta."""
    axes = len(size) - 2
    return _transposed(grids.affine_grid_generator, grad, (size[0], axes, axes + 1), size, align_corners)


def _padded(pad: Callable[..., Array]) -> Callable[..., Array]:
    def backward(grad_output: ArrayLike, self: ArrayLike, padding: Sizes) -> Array:
        """The sums of the entries of grad_output that come from each entry."""
        return _transposed(pad, grad_output, jnp.shape(self), padding)

    return backward


OPERATORS = {
    "_upsample_bicubic2d_aa_backward": _aligned2d(upsampling._upsample_bicubic2d_aa),
    "_upsample_bilinear2d_aa_backward": _aligned2d(upsampling._upsample_bilinear2d_aa),
    "_upsample_lanczos2d_aa_backward": _aligned2d(upsampling._upsample_lanczos2d_aa),
    "_upsample_nearest_exact1d_backward": _nearest1d(upsampling._upsample_nearest_exact1d),
    "_upsample_nearest_exact2d_backward": _nearest2d(upsampling._upsample_nearest_exact2d),
    "_upsample_nearest_exact3d_backward": _nearest3d(upsampling._upsample_nearest_exact3d),
    "grid_sampler_2d_backward": _grid_sampler_backward,
    "grid_sampler_3d_backward": _grid_sampler_backward,
    "reflection_pad1d_backward": _padded(padding.reflection_pad1d),
    "reflection_pad2d_backward": _padded(padding.reflection_pad2d),
    "reflection_pad3d_backward": _padded(padding.reflection_pad3d),
    "replication_pad1d_backward": _padded(padding.replication_pad1d),
    "replication_pad2d_backward": _padded(padding.replication_pad2d),
    "replication_pad3d_backward": _padded(padding.replication_pad3d),
    "upsample_bicubic2d_backward": _aligned2d(upsampling.upsample_bicubic2d),
    "upsample_bilinear2d_backward": _aligned2d(upsampling.upsample_bilinear2d),
    "upsample_nearest1d_backward": _nearest1d(upsampling.upsample_nearest1d),
    "upsample_nearest2d_backward": _nearest2d(upsampling.upsample_nearest2d),
    "upsample_nearest3d_backward": _nearest3d(upsampling.upsample_nearest3d),
}
