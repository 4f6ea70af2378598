"""Complex numbers: parts, conjugates, angles, and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._promotion import is_complex, promoted

Array = jax.Array


def complex(real: ArrayLike, imag: ArrayLike) -> Array:
    """real + i imag."""
    return lax.complex(*promoted(real, imag))


def polar(abs: ArrayLike, angle: ArrayLike) -> Array:
    """abs (cos angle + i sin angle)."""
    size, phase = promoted(abs, angle)
    return lax.complex(size * jnp.cos(phase), size * jnp.sin(phase))


def real(self: ArrayLike) -> Array:
    """The real part."""
    return jnp.real(jnp.asarray(self))


def imag(self: ArrayLike) -> Array:
    """The imaginary part."""
    return jnp.imag(jnp.asarray(self))


def conj(self: ArrayLike) -> Array:
    """The conjugate."""
    return jnp.conj(jnp.asarray(self))


def view_as_real(self: ArrayLike) -> Array:
    """Real and imaginary part along a new last axis."""
    x = jnp.asarray(self)
    return jnp.stack([x.real, x.imag], axis=-1)


def view_as_complex(self: ArrayLike) -> Array:
    """The complex numbers whose parts are along the last axis."""
    x = jnp.asarray(self)
    return lax.complex(x[..., 0], x[..., 1])


def angle(self: ArrayLike) -> Array:
    """The angle of a complex number; of a real one 0 or π. The derivative at 0 is 0."""
    x = jnp.asarray(self)
    if is_complex(x):
        zero = x == 0
        safe = jnp.where(zero, jnp.ones_like(x), x)
        signed = lax.stop_gradient(jnp.arctan2(x.imag, x.real))
        return jnp.where(zero, signed, jnp.arctan2(safe.imag, safe.real))
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.float32
    flat = jnp.where(x < 0, jnp.asarray(math.pi, dtype), jnp.asarray(0.0, dtype))
    return jnp.where(jnp.isnan(x), x.astype(dtype), flat)


def _normalized(x: Array, dim: Sequence[int], normalization: int, sizes: Sequence[int]) -> Array:
    """ATen's normalization: 0 none, 1 by the root of the number of entries, 2 by the number."""
    count = math.prod(sizes[axis] for axis in dim)
    scale = {0: 1.0, 1: 1 / math.sqrt(count) if count else 1.0, 2: 1 / count if count else 1.0}[normalization]
    return x * jnp.asarray(scale, x.dtype)


def _fft_c2c(self: ArrayLike, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    """The Fourier transform along axes, or with the other sign the inverse without its factor."""
    x = jnp.asarray(self)
    if not dim:
        return x
    if forward:
        return _normalized(jnp.fft.fftn(x, axes=tuple(dim)), dim, normalization, x.shape)
    return _normalized(jnp.conj(jnp.fft.fftn(jnp.conj(x), axes=tuple(dim))), dim, normalization, x.shape)


def _fft_r2c(self: ArrayLike, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    """The Fourier transform of real numbers; onesided: of the last axis the first half, which has the other."""
    x = jnp.asarray(self)
    if onesided:
        return _normalized(jnp.fft.rfftn(x, axes=tuple(dim)), dim, normalization, x.shape)
    return _fft_c2c(lax.complex(x, jnp.zeros_like(x)), dim, normalization, True)


def _fft_c2r(self: ArrayLike, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    """The inverse of _fft_r2c without its factor, of a last axis with this size."""
    x = jnp.asarray(self)
    for axis in dim[:-1]:
        x = _fft_c2c(x, [axis], 0, False)
    back = jnp.fft.irfft(x, n=last_dim_size, axis=dim[-1]) * jnp.asarray(last_dim_size, x.real.dtype)
    return _normalized(back, dim, normalization, back.shape)


OPERATORS = {
    "_conj": conj,
    "_conj_physical": conj,
    "conj_physical": conj,
    "_conj_copy": conj,
    "view_as_real_copy": view_as_real,
    "view_as_complex_copy": view_as_complex,
    "_fft_c2c": _fft_c2c,
    "_fft_r2c": _fft_r2c,
    "_fft_c2r": _fft_c2r,
}
