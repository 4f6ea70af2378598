"""Images at places that a grid says, affine grids, and rearrangements of channels as pixels.

Places go from -1 to 1, from the centres (align_corners) or the outer edges of the first and last entries. Modes of
interpolation are 0 linear, 1 nearest (the even one of two), 2 cubic; paddings 0 zeros, 1 border, 2 reflection.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

Array = jax.Array


def _clipped(place: Array, n: int) -> Array:
    """A place between the first entry and the last, with the derivative 0 at both."""
    low, high = jnp.zeros_like(place), jnp.full_like(place, n - 1)
    return jnp.where(place <= low, low, jnp.where(place >= high, high, place))


def _reflected(place: Array, n: int, align_corners: bool) -> Array:
    """A place reflected at the ends as often as is needed."""
    low, span = (0.0, n - 1) if align_corners else (-0.5, n)
    if span == 0:
        return jnp.zeros_like(place)
    away = place - low
    away = jnp.where(away < 0, -away, away)
    flips = lax.stop_gradient(jnp.floor(away / span))
    rest = away - flips * span
    return jnp.where(flips % 2 == 0, rest, span - rest) + low


def _bounded(place: Array, n: int, padding_mode: int, align_corners: bool) -> Array:
    if padding_mode == 2:
        place = _reflected(place, n, align_corners)
    return place if padding_mode == 0 else _clipped(place, n)


def _at(x: Array, places: Sequence[Array]) -> Array:
    """The entries x[n, :, *places[n]], and 0 outside, with the channels second."""
    sizes, batch = x.shape[2:], x.shape[0]
    inside, flat = jnp.ones(places[0].shape, bool), jnp.zeros(places[0].shape, jnp.asarray(0).dtype)
    for place, n in zip(places, sizes, strict=True):
        within = (place >= 0) & (place <= n - 1)
        inside = inside & within
        flat = flat * n + jnp.where(within, place, jnp.zeros_like(place)).astype(flat.dtype)
    count = math.prod(flat.shape[1:])
    found = jnp.take_along_axis(x.reshape(*x.shape[:2], math.prod(sizes)), flat.reshape(batch, 1, count), 2)
    found = found.reshape(*found.shape[:2], *flat.shape[1:])
    return jnp.where(inside[:, None], found, jnp.zeros_like(found))


def _cubic(part: Array) -> list[Array]:
    """The weights of the entries at -1, 0, 1 and 2 for a place between 0 and 1: Keys' with the slope -3/4."""
    a = -0.75

    def near(t: Array) -> Array:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Array) -> Array:
        return ((t - 5) * t + 8) * t * a - 4 * a

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]


def _sampled(
    input: ArrayLike, grid: ArrayLike, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    x, g = jnp.asarray(input), jnp.asarray(grid)
    sizes = x.shape[2:]
    places = []
    for i, n in enumerate(sizes):
        across = g[..., len(sizes) - 1 - i]
        place = (across + 1) / 2 * (n - 1) if align_corners else ((across + 1) * n - 1) / 2
        if interpolation_mode != 2:
            place = _bounded(place, n, padding_mode, align_corners)
        places.append(place)
    if interpolation_mode == 1:
        return _at(x, [lax.stop_gradient(jnp.round(place)) for place in places])
    choices = []
    for place, n in zip(places, sizes, strict=True):
        floor = lax.stop_gradient(jnp.floor(place))
        part = place - floor
        if interpolation_mode == 0:
            choices.append([(floor, 1 - part), (floor + 1, part)])
        else:
            indices = [_bounded(floor + k, n, padding_mode, align_corners) for k in (-1, 0, 1, 2)]
            choices.append(list(zip((lax.stop_gradient(jnp.trunc(j)) for j in indices), _cubic(part), strict=True)))
    total = jnp.zeros((), x.dtype)
    for corner in itertools.product(*choices):
        weight = functools.reduce(operator.mul, [part for _, part in corner])
        total = total + _at(x, [index for index, _ in corner]) * weight[:, None]
    return total


def grid_sampler_2d(
    input: ArrayLike, grid: ArrayLike, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """The input at the places (x, y) of the grid's last axis. The derivative by a place at a border is 0."""
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: ArrayLike, grid: ArrayLike, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """The input at the places (x, y, z) of the grid's last axis. The derivative by a place at a border is 0."""
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler(
    input: ArrayLike, grid: ArrayLike, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """grid_sampler_2d or grid_sampler_3d."""
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


def affine_grid_generator(theta: ArrayLike, size: Sequence[int], align_corners: bool) -> Array:
    """The grid of the places theta (x, y, 1), or theta (x, y, z, 1), of the entries of images of this size."""
    t = jnp.asarray(theta)
    sizes = tuple(size[2:])
    lines = []
    for n in sizes:
        line = jnp.linspace(-1, 1, n, dtype=t.dtype) if n > 1 else jnp.zeros((n,), t.dtype)
        lines.append(line if align_corners else line * ((n - 1) / n))
    places = [*reversed(jnp.meshgrid(*lines, indexing="ij")), jnp.ones(sizes, t.dtype)]
    return jnp.einsum("...k,njk->n...j", jnp.stack(places, -1), t)


def pixel_shuffle(self: ArrayLike, upscale_factor: int) -> Array:
    """Channels as pixels: an image that is larger along both axes by the factor."""
    x, r = jnp.asarray(self), upscale_factor
    *batch, c, h, w = x.shape
    if c % (r * r):
        raise ValueError(f"pixel_shuffle: {c} channels of an image {x.shape} are no multiple of {r * r}")
    x = x.reshape(*batch, c // (r * r), r, r, h, w)
    x = jnp.moveaxis(jnp.moveaxis(x, -4, -2), -4, -1)
    return x.reshape(*batch, c // (r * r), h * r, w * r)


def pixel_unshuffle(self: ArrayLike, downscale_factor: int) -> Array:
    """Pixels as channels: the inverse of pixel_shuffle."""
    x, r = jnp.asarray(self), downscale_factor
    *batch, c, h, w = x.shape
    x = x.reshape(*batch, c, h // r, r, w // r, r)
    x = jnp.moveaxis(jnp.moveaxis(x, -1, -4), -2, -4)
    return x.reshape(*batch, c * r * r, h // r, w // r)


def channel_shuffle(self: ArrayLike, groups: int) -> Array:
    """The channels of several groups taken in turns."""
    x = jnp.asarray(self)
    n, c, *rest = x.shape
    return x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(x.shape)


def native_channel_shuffle(self: ArrayLike, groups: int) -> Array:
    """channel_shuffle."""
    return channel_shuffle(self, groups)
