"""Attention with dropout of its weights: what the layers share."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def attend(
    attention_fn: Callable,
    query: Array,
    key: Array,
    value: Array,
    mask: Bool[Array, "*#batch #N #T #S"] | None,
    kept: Bool[Array, "*#batch #N T S"] | None,
    rate: float,
    is_causal: bool,
    return_attn: bool,
) -> tuple[Float[Array, "*batch T N E"], Float[Array, "*batch N T S"] | None]:
    """The attention of `jax_ref.dot_product_attention`, weights that are not kept at 0 and the others / (1 - rate).

    The weights come back with `return_attn`. A dropped weight is a masked one: nothing is normalised
    afterwards. So the explicit formulas differentiate it.
    """
    rate = 0.0 if kept is None else rate
    if kept is not None:
        mask = kept if mask is None else kept & jnp.expand_dims(mask, tuple(range(kept.ndim - mask.ndim)))
    result = attention_fn(query, key, value, mask=mask, is_causal=is_causal, return_attn=return_attn)
    output, attn = result if return_attn else (result, None)
    return (output, attn) if rate == 0 else (output / (1 - rate), None if attn is None else attn / (1 - rate))


def check_rate(name: str, rate: float) -> None:
    """Raises: ValueError, a dropout rate outside of [0, 1)."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {rate}")


def check_heads(name: str, size: int, num_heads: int) -> None:
    """Raises: ValueError, a size that the heads do not divide."""
    if size % num_heads:
        raise ValueError(f"{name} is {size}, which num_heads, {num_heads}, does not divide; give every head its share")
