"""Products and sums for the formulas: `None` is an exact zero, and low precision accumulates in float32.

With these operations a formula reads the same whether all of its tangents (cotangents) are there or only some:
a product with an absent factor is absent, a sum without terms is absent, and nothing is computed for either.
"""

from __future__ import annotations

import functools
from typing import TypeAlias, overload

import jax
import jax.numpy as jnp
from jax import lax

MaybeZero: TypeAlias = jax.Array | None


def _accumulator(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype that sums are kept in: float32 for bfloat16 and float16, otherwise the dtype itself."""
    return jnp.dtype("float32") if jnp.finfo(dtype).bits < 32 else dtype


def wide(x: jax.Array) -> jax.Array:
    """x in the dtype that its sums are kept in."""
    return x.astype(_accumulator(x.dtype))


@overload
def mm(subscripts: str, x: jax.Array, y: jax.Array) -> jax.Array: ...
@overload
def mm(subscripts: str, x: MaybeZero, y: MaybeZero) -> MaybeZero: ...
def mm(subscripts: str, x: MaybeZero, y: MaybeZero) -> MaybeZero:
    """One matrix product, written with index letters, its sum over the one that both have; in the `wide` dtype.

    Both factors are first rounded to the narrower of their two dtypes, as `jax.nn.dot_product_attention` does
    before its second product: a matrix unit takes bfloat16 or float16 factors and adds up in float32.
    """
    if x is None or y is None:
        return None
    narrow = min(x.dtype, y.dtype, key=lambda dtype: jnp.finfo(dtype).bits)
    # dot_general and not jnp.einsum, which JAX takes longer to trace: attn and its VJP by a third.
    summed = _summed_axes(subscripts), ((), ())
    return lax.dot_general(x.astype(narrow), y.astype(narrow), summed, preferred_element_type=_accumulator(narrow))


@functools.cache
def _summed_axes(subscripts: str) -> tuple[tuple[int], tuple[int]]:
    """The axis of each factor that a product sums over: the other ones are the result's, in this order."""
    factors, result = subscripts.split("->")
    x, y = factors.split(",")
    (summed,) = set(x) & set(y)
    if (x + y).replace(summed, "") != result:
        raise ValueError(f"subscripts: {subscripts} is not one product of two matrices, without a transposition")
    return (x.index(summed),), (y.index(summed),)


def mul(*factors: MaybeZero) -> MaybeZero:
    """Elementwise (Hadamard) product ∘, in the `wide` dtype."""
    present = [wide(x) for x in factors if x is not None]
    return functools.reduce(jnp.multiply, present) if len(present) == len(factors) else None


def add(*terms: MaybeZero) -> MaybeZero:
    """Sum of the terms that are present, in the `wide` dtype."""
    present = [wide(x) for x in terms if x is not None]
    return functools.reduce(jnp.add, present) if present else None


def twice_negative(x: MaybeZero) -> MaybeZero:
    """-2 x; exact in every binary floating-point format."""
    return None if x is None else -2 * x


def narrowed(results: tuple[MaybeZero, ...], dtype: jnp.dtype) -> tuple[MaybeZero, ...]:
    """The results rounded once, to the dtype of the inputs."""
    return tuple(None if x is None else x.astype(dtype) for x in results)
