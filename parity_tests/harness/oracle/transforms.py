"""JAX's transforms of a flat map: of positional arguments to a tuple of results, in both of which `None` is a zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from parity_tests.harness.maps import Slot


def vjp_of(f: Callable, count: int) -> Callable:
    """Return the VJP of a map of `count` arguments, none of whose results is `None`."""

    def vjp(*args):
        results, pullback = jax.vjp(f, *args[:count])
        return pullback(tuple(_or_zeros(w, y) for w, y in zip(args[count:], results, strict=True)))

    return vjp


def jvp_of(f: Callable, count: int) -> Callable:
    """Return the JVP of a map of `count` arguments."""

    def jvp(*args):
        tangents = tuple(_or_zeros(t, x) for t, x in zip(args[count:], args[:count], strict=True))
        return jax.jvp(f, args[:count], tangents)[1]

    return jvp


def transposed(vjp: Callable, count: int, outputs_at: Callable[..., Sequence[jax.Array]]) -> Callable:
    """Return the JVP that belongs to a VJP; `outputs_at`: inputs -> arrays shaped like the outputs there."""

    def jvp(*args):
        inputs, tangents = args[:count], args[count:]

        def gradients_at(*w):
            return tuple(_or_zeros(y, x) for y, x in zip(vjp(*inputs, *w), inputs, strict=True))

        gradients, transpose = jax.vjp(gradients_at, *outputs_at(*inputs))
        return transpose(tuple(_or_zeros(t, g) for t, g in zip(tangents, gradients, strict=True)))

    return jvp


def _or_zeros(x: jax.Array | None, like: jax.Array | None) -> jax.Array | None:
    return jnp.zeros_like(like) if x is None and like is not None else x


def conjugated(slots: Sequence[Slot], arrays: Sequence) -> list:
    """Convert arrays from JAX's convention to PyTorch's, or back, by the conjugates that the slots call for."""

    def flips(slot: Slot, x: jax.Array | None) -> bool:
        return x is not None and jnp.iscomplexobj(x) and slot.conjugated

    # Of a wrong number of results the oracle complains.
    known = [lax.conj(x) if flips(slot, x) else x for slot, x in zip(slots, arrays, strict=False)]
    return [*known, *arrays[len(known) :]]


def as_tuple(results: Any) -> tuple:
    """Return the result of a function as a tuple, be it one array or several."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)
