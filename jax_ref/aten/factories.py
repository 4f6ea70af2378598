"""Arrays made of sizes and numbers. Without a dtype they are of PyTorch's default ones, int64 and float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

Array = jax.Array


def _dtype(dtype: Any, *numbers: Any) -> Any:
    if dtype is not None:
        return dtype
    if all(isinstance(x, bool) for x in numbers) and numbers:
        return np.bool_
    if any(isinstance(x, complex) for x in numbers):
        return np.complex64
    whole = numbers and all(isinstance(x, int) for x in numbers)
    return jax.dtypes.canonicalize_dtype(np.int64) if whole else np.float32


def full(size: Sequence[int], fill_value: complex, *, dtype: Any = None) -> Array:
    """One number in every entry."""
    return jnp.full(tuple(size), fill_value, _dtype(dtype, fill_value))


def zeros(size: Sequence[int], *, dtype: Any = None) -> Array:
    """Zeros."""
    return jnp.zeros(tuple(size), _dtype(dtype))


def ones(size: Sequence[int], *, dtype: Any = None) -> Array:
    """Ones."""
    return jnp.ones(tuple(size), _dtype(dtype))


def full_like(self: ArrayLike, fill_value: complex, *, dtype: Any = None) -> Array:
    """One number in every entry of an array like self."""
    return jnp.full_like(jnp.asarray(self), fill_value, dtype=dtype)


def zeros_like(self: ArrayLike, *, dtype: Any = None) -> Array:
    """Zeros in an array like self."""
    return jnp.zeros_like(jnp.asarray(self), dtype=dtype)


def ones_like(self: ArrayLike, *, dtype: Any = None) -> Array:
    """Ones in an array like self."""
    return jnp.ones_like(jnp.asarray(self), dtype=dtype)


def new_full(self: ArrayLike, size: Sequence[int], fill_value: complex, *, dtype: Any = None) -> Array:
    """One number in every entry, with the dtype of self."""
    return jnp.full(tuple(size), fill_value, dtype or jnp.asarray(self).dtype)


def new_zeros(self: ArrayLike, size: Sequence[int], *, dtype: Any = None) -> Array:
    """Zeros with the dtype of self."""
    return jnp.zeros(tuple(size), dtype or jnp.asarray(self).dtype)


def new_ones(self: ArrayLike, size: Sequence[int], *, dtype: Any = None) -> Array:
    """Ones with the dtype of self."""
    return jnp.ones(tuple(size), dtype or jnp.asarray(self).dtype)


def fill(self: ArrayLike, value: ArrayLike) -> Array:
    """The value in every entry of an array like self."""
    x = jnp.asarray(self)
    return jnp.broadcast_to(jnp.asarray(value).astype(x.dtype), x.shape)


def zero(self: ArrayLike) -> Array:
    """Zeros in place of the entries of self."""
    return jnp.zeros_like(jnp.asarray(self))


def scalar_tensor(s: complex, *, dtype: Any = None) -> Array:
    """A number as an array without axes."""
    return jnp.asarray(s, np.float32 if dtype is None else dtype)


def arange(*args: float, dtype: Any = None, start: float = 0, end: float | None = None, step: float = 1) -> Array:
    """Numbers from start on, below end, so far apart; `arange(end)`, `arange(start, end)`, or with a step."""
    numbers = list(args) if end is None else [start, end, step]
    if len(numbers) > 2 and numbers[2] == 0:
        raise ValueError("arange: step is 0")
    return jnp.asarray(np.arange(*numbers), _dtype(dtype, *numbers))


def linspace(start: ArrayLike, end: ArrayLike, steps: int, *, dtype: Any = None) -> Array:
    """So many numbers from start to end, equally far apart."""
    wanted = _dtype(dtype)
    inexact = wanted if jnp.issubdtype(wanted, jnp.inexact) else np.float64
    found = jnp.linspace(jnp.asarray(start), jnp.asarray(end), steps, dtype=jax.dtypes.canonicalize_dtype(inexact))
    return found.astype(wanted)


def logspace(start: ArrayLike, end: ArrayLike, steps: int, base: float = 10.0, *, dtype: Any = None) -> Array:
    """The powers of base with exponents from start to end, equally far apart."""
    wanted = _dtype(dtype)
    exponents = linspace(start, end, steps, dtype=wanted)
    return jnp.power(jnp.asarray(base, exponents.dtype), exponents).astype(wanted)


def eye(n: int, m: int | None = None, *, dtype: Any = None) -> Array:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    return jnp.eye(n, n if m is None else m, dtype=_dtype(dtype))


def meshgrid(tensors: Sequence[ArrayLike], *, indexing: str = "ij") -> tuple[Array, ...]:
    """The coordinates of the points of a grid."""
    return tuple(jnp.meshgrid(*(jnp.asarray(x).reshape(-1) for x in tensors), indexing=indexing))


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of each entry."""
    return jnp.vander(jnp.asarray(x), N, increasing)


def broadcast_tensors(tensors: Sequence[ArrayLike]) -> tuple[Array, ...]:
    """Arrays repeated to their common shape."""
    return tuple(jnp.broadcast_arrays(*(jnp.asarray(x) for x in tensors)))


def cartesian_prod(tensors: Sequence[ArrayLike]) -> Array:
    """All choices of an entry from each, one a row."""
    grids = list(meshgrid(tensors))
    return jnp.stack([x.reshape(-1) for x in grids], axis=-1) if len(grids) > 1 else grids[0]
