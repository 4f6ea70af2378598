"""The checks of arguments, in the words of the caller: the operator, the argument, the axis, the sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

Array = jax.Array


def shaped(name: str, **arrays: tuple[Array, str]) -> None:
    """Check the axes of arguments, which are named by letters: `shaped("mm", self=(x, "n k"), mat2=(y, "k m"))`.

    Raises:
        ValueError: an argument has another number of axes, or an axis differs between two.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for argument, (x, letters) in arrays.items():
        axes = letters.split()
        if x.ndim != len(axes):
            raise ValueError(
                f"{name}: {argument} must have {len(axes)} axes, ({', '.join(axes)}), and has the shape {x.shape}"
            )
        for axis, size in zip(axes, x.shape, strict=True):
            other, where = sizes.setdefault(axis, (size, argument))
            if size != other:
                shapes = f"{where} has the shape {arrays[where][0].shape}, {argument} {x.shape}"
                raise ValueError(f"{name}: axis {axis} is {other} in {where} but {size} in {argument}; {shapes}")


def same(name: str, what: str, first: tuple[str, int], second: tuple[str, int], remedy: str = "") -> None:
    """Check that two arguments agree in a number.

    Raises:
        ValueError: they do not.
    """
    (one, size), (other, another) = first, second
    if size != another:
        raise ValueError(f"{name}: {what} is {size} in {one} but {another} in {other}{remedy and f'; {remedy}'}")


def expanded(name: str, argument: str, x: Array, shape: Sequence[int]) -> Array:
    """Return an argument, broadcast to a shape.

    Raises:
        ValueError: it does not broadcast to it.
    """
    try:
        return jnp.broadcast_to(x, tuple(shape))
    except ValueError:
        raise ValueError(
            f"{name}: {argument} has the shape {x.shape}, which does not broadcast to {tuple(shape)}"
        ) from None


def together(arrays: Iterable[Array]) -> list[Array]:
    """Return arrays, broadcast to one shape.

    Raises:
        ValueError: they do not broadcast.
    """
    given = list(arrays)
    try:
        return list(jnp.broadcast_arrays(*given))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in given)
        raise ValueError(
            f"the shapes {shapes} do not broadcast: from the last axis on, sizes must be equal or 1"
        ) from None


def exceeds(size: int, most: int) -> bool:
    """True if a size is known to be larger than another one: neither is a symbolic size of `jax.export`."""
    return isinstance(size, int) and isinstance(most, int) and size > most


def integers(name: str, argument: str, x: ArrayLike) -> Array:
    """Return an argument that must be of integers.

    Raises:
        TypeError: it is not.
    """
    found = jnp.asarray(x)
    if not jnp.issubdtype(found.dtype, jnp.integer) and found.size:
        raise TypeError(f"{name}: {argument} must be of integers, got {found.dtype}; convert it with astype(int)")
    return found


def one_of(name: str, argument: str, value: object, allowed: Iterable[object]) -> None:
    """Check an option.

    Raises:
        ValueError: there is no such one.
    """
    names = list(allowed)
    if value not in names:
        raise ValueError(f"{name}: {argument} is {value!r}; give one of {', '.join(map(repr, names))}")


def positive(name: str, **numbers: int | Sequence[int]) -> None:
    """Check numbers that must be at least 1.

    Raises:
        ValueError: one is less.
    """
    for argument, given in numbers.items():
        if any(exceeds(1, n) for n in ((given,) if isinstance(given, int) else given)):
            raise ValueError(f"{name}: {argument} must be at least 1, got {given}")


def square(name: str, argument: str, x: ArrayLike) -> None:
    """Check that the last two axes of an argument are equal.

    Raises:
        ValueError: they are not.
    """
    shape = jnp.shape(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"{name}: {argument} must be of square matrices, got the shape {shape}")
