"""Paddings. A pad has two numbers for each axis, from the last axis on; a negative one cuts entries off."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._arrays import take
from jax_ref.aten._checks import one_of

Array = jax.Array


def constant_pad_nd(self: ArrayLike, pad: Sequence[int], value: float = 0) -> Array:
    """self with the value around it."""
    x = jnp.asarray(self)
    pairs = [(int(a), int(b), 0) for a, b in zip(pad[::2], pad[1::2], strict=True)]
    widths = [(0, 0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    return lax.pad(x, jnp.asarray(value, x.dtype), widths)


def _indexed(self: ArrayLike, pad: Sequence[int], index_of) -> Array:
    """self at the indices that index_of has for the positions of an axis that is longer at both ends."""
    x = jnp.asarray(self)
    for i, (low, high) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        n = x.shape[-1 - i]
        x = take(x, index_of(np.arange(-low, n + high), n), x.ndim - 1 - i)
    return x


def _reflected(i: np.ndarray, n: int) -> np.ndarray:
    period = max(2 * (n - 1), 1)
    folded = np.mod(i, period)
    return np.where(folded < n, folded, period - folded)


def reflection_pad1d(self: ArrayLike, padding: Sequence[int]) -> Array:
    """self reflected at its first and last entries, which are not repeated."""
    return _indexed(self, padding, _reflected)


def reflection_pad2d(self: ArrayLike, padding: Sequence[int]) -> Array:
    """reflection_pad1d along the last two axes."""
    return _indexed(self, padding, _reflected)


def reflection_pad3d(self: ArrayLike, padding: Sequence[int]) -> Array:
    """reflection_pad1d along the last three axes."""
    return _indexed(self, padding, _reflected)


def _replicated(i: np.ndarray, n: int) -> np.ndarray:
    return np.clip(i, 0, n - 1)


def replication_pad1d(self: ArrayLike, padding: Sequence[int]) -> Array:
    """self with its first and last entries repeated."""
    return _indexed(self, padding, _replicated)


def replication_pad2d(self: ArrayLike, padding: Sequence[int]) -> Array:
    """replication_pad1d along the last two axes."""
    return _indexed(self, padding, _replicated)


def replication_pad3d(self: ArrayLike, padding: Sequence[int]) -> Array:
    """replication_pad1d along the last three axes."""
    return _indexed(self, padding, _replicated)


def _pad_circular(self: ArrayLike, pad: Sequence[int]) -> Array:
    """self, without what is cut off, continued with its period."""
    cut = constant_pad_nd(self, [min(n, 0) for n in pad])
    return _indexed(cut, [max(n, 0) for n in pad], np.mod)


def pad(self: ArrayLike, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """self padded in the mode "constant", "reflect", "replicate" or "circular"."""
    one_of("pad", "mode", mode, ("constant", "reflect", "replicate", "circular"))
    if len(pad) % 2 or len(pad) > 2 * jnp.ndim(self):
        raise ValueError(f"pad: two numbers an axis, from the last one on; got {tuple(pad)} for {jnp.shape(self)}")
    if mode == "constant":
        return constant_pad_nd(self, pad, 0 if value is None else value)
    if mode == "circular":
        return _pad_circular(self, pad)
    return _indexed(self, pad, {"reflect": _reflected, "replicate": _replicated}[mode])


def _pad_enum(self: ArrayLike, pad: Sequence[int], mode: int, value: float | None = None) -> Array:
    """pad with the mode's number."""
    return globals()["pad"](self, pad, ("reflect", "replicate", "circular", "constant")[mode], value)


OPERATORS = {"_pad_circular": _pad_circular, "_pad_enum": _pad_enum}
