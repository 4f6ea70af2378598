"""Scaled dot-product attention."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import expanded, same

Array = jax.Array
Maybe = ArrayLike | None


def _exponentials(x: Array, axis: int) -> tuple[Array, Array, Array]:
    """exp(x - largest), their sum, or 1 where all are -inf, and the largest, or 0 there."""
    largest = lax.stop_gradient(x.max(axis, keepdims=True))
    largest = jnp.where(jnp.isneginf(largest), jnp.zeros_like(largest), largest)
    parts = jnp.exp(x - largest)
    total = parts.sum(axis, keepdims=True)
    return parts, jnp.where(total == 0, jnp.ones_like(total), total), largest


def _safe_softmax(self: ArrayLike, dim: int, dtype: object = None) -> Array:
    """The softmax along an axis, and 0 where all entries are -inf."""
    x = jnp.asarray(self)
    parts, total, _ = _exponentials(x, axis_of(x, dim))
    return parts / total


def _product(equation: str, x: Array, y: Array) -> Array:
    return jnp.einsum(equation, x, y)


def _scores(query: Array, key: Array, attn_mask: Maybe, is_causal: bool, scale: float | None) -> Array:
    """scale query keyᵀ plus the mask, one of booleans as 0 and 1, and -inf after the diagonal if causal."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _product("...qd,...kd->...qk", query, key) * factor
    if is_causal:
        seen = jnp.broadcast_to(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores.shape)
        scores = jnp.where(seen, scores, jnp.full_like(scores, -jnp.inf))
    if attn_mask is None:
        return scores
    return scores + expanded("attention", "attn_mask", jnp.asarray(attn_mask).astype(scores.dtype), scores.shape)


def _check_heads(query: Array, key: Array, value: Array) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2:
            raise ValueError(f"attention: {name} needs the axes (..., length, features), and has the shape {x.shape}")
    same("attention", "the last axis", (f"query {query.shape}", query.shape[-1]), (f"key {key.shape}", key.shape[-1]))
    same(
        "attention",
        "the last axis but one",
        (f"key {key.shape}", key.shape[-2]),
        (f"value {value.shape}", value.shape[-2]),
    )


def _heads(x: ArrayLike, query: Array, enable_gqa: bool) -> Array:
    """x with its heads repeated to as many as the query has, and broadcast to its batch."""
    y = jnp.asarray(x)
    if enable_gqa:
        if query.shape[-3] % y.shape[-3]:
            raise ValueError(
                f"attention: {query.shape[-3]} heads of queries are no multiple of {y.shape[-3]} of keys or values"
            )
        y = jnp.repeat(y, query.shape[-3] // y.shape[-3], -3)
    try:
        batch = jnp.broadcast_shapes(query.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(
            f"attention: the axes before the last two do not broadcast, with query {query.shape} and key or value "
            f"{y.shape}; fewer heads of keys than of queries need enable_gqa=True"
        ) from None
    return jnp.broadcast_to(y, batch + y.shape[-2:])


def _scaled_dot_product_attention_math(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: Maybe = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Maybe = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Array, Array]:
    """softmax(scale query keyᵀ + mask) value and the softmax, which is 0 in a row that is masked everywhere.

    A mask of booleans is added as 0 and 1: its callers make it one of 0 and -inf. dropout_mask says which weights are
    kept.

    Raises:
        ValueError: dropout without a mask.
    """
    q = jnp.asarray(query)
    _check_heads(q, jnp.asarray(key), jnp.asarray(value))
    k, v = _heads(key, q, enable_gqa), _heads(value, q, enable_gqa)
    q = jnp.broadcast_to(q, k.shape[:-2] + q.shape[-2:])
    weights = _safe_softmax(_scores(q, k, attn_mask, is_causal, scale), -1)
    used = weights
    if dropout_mask is not None:
        kept = jnp.broadcast_to(jnp.asarray(dropout_mask).astype(bool), weights.shape)
        used = weights = jnp.where(kept, weights, jnp.zeros_like(weights))
        used = used / (1 - dropout_p)
    elif dropout_p > 0:
        raise ValueError("dropout needs dropout_mask: random numbers are not drawn")
    return _product("...qk,...kd->...qd", used, v), weights


def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: Maybe = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """softmax(scale query keyᵀ + mask) value, without dropout; a mask of booleans is False where -inf is added.

    query (*, heads, queries, features), key (*, heads, keys, features), value (*, heads, keys, e); the result is (*,
    heads, queries, e). attn_mask broadcasts to (*, heads, queries, keys). This is the softmax attention that models
    have, differentiated by JAX; `jax_ref.dot_product_attention` has tanh in place of softmax, and explicit formulas.

    >>> aten.scaled_dot_product_attention(jnp.zeros((1, 2)), jnp.zeros((2, 2)), jnp.array([[1.0], [3.0]]))
    Array([[2.]], dtype=float32)
    """
    if attn_mask is not None and jnp.asarray(attn_mask).dtype == jnp.bool_:
        zeros = jnp.zeros(jnp.shape(attn_mask), jnp.asarray(query).dtype)
        attn_mask = jnp.where(jnp.asarray(attn_mask), zeros, jnp.full_like(zeros, -jnp.inf))
    return _scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


def _scaled_dot_product_flash_attention_for_cpu(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Maybe = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """softmax(scale query keyᵀ + mask) value, and the logarithm of the softmax's denominator.

    There may be fewer heads of keys and values than of queries, by whose number theirs divides.
    """
    q = jnp.asarray(query)
    k, v = (_heads(x, q, enable_gqa=jnp.shape(x)[-3] != q.shape[-3]) for x in (key, value))
    parts, total, largest = _exponentials(_scores(q, k, attn_mask, is_causal, scale), -1)
    return _product("...qk,...kd->...qd", parts / total, v), (jnp.log(total) + largest)[..., 0]


OPERATORS = {
    "_safe_softmax": _safe_softmax,
    "_scaled_dot_product_attention_math": _scaled_dot_product_attention_math,
    "_scaled_dot_product_flash_attention_for_cpu": _scaled_dot_product_flash_attention_for_cpu,
}
