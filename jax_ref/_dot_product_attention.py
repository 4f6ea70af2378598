"""Tanh attention for models: the arguments and layout of `jax.nn.dot_product_attention`, the formulas of the oracle.

A head of an example is one call of `jax_ref._masked`; batch axes, heads and groups of heads are `jax.vmap`s of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, overload

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jax_ref._masked import masked, masked_ad
from jax_ref._validate_attention import validate_attention

Attention = Callable[..., tuple[jax.Array, jax.Array]]


@overload
def dot_product_attention(
    query: Float[Array, "*batch T N H"],
    key: Float[Array, "*batch S K H"],
    value: Float[Array, "*batch S K E"],
    bias: Float[Array, "*#batch #N #T #S"] | None = None,
    mask: Bool[Array, "*#batch #N #T #S"] | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "*batch"] | None = None,
    key_value_seq_lengths: Int[Array, "*batch"] | None = None,
    return_attn: Literal[False] = False,
) -> Float[Array, "*batch T N E"]: ...


@overload
def dot_product_attention(
    query: Float[Array, "*batch T N H"],
    key: Float[Array, "*batch S K H"],
    value: Float[Array, "*batch S K E"],
    bias: Float[Array, "*#batch #N #T #S"] | None = None,
    mask: Bool[Array, "*#batch #N #T #S"] | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "*batch"] | None = None,
    key_value_seq_lengths: Int[Array, "*batch"] | None = None,
    return_attn: Literal[True],
) -> tuple[Float[Array, "*batch T N E"], Float[Array, "*batch N T S"]]: ...


def dot_product_attention(
    query,
    key,
    value,
    bias=None,
    mask=None,
    *,
    scale=None,
    is_causal=False,
    query_seq_lengths=None,
    key_value_seq_lengths=None,
    return_attn=False,
):
    """output = attn v, attn = mask ∘ tanh(scale q kᵀ + bias), for every head, with its explicit VJP.

    The arguments, their order and their layout are those of `jax.nn.dot_product_attention`, with tanh in the place of
    softmax. The axes: T queries, S keys, N heads of queries, K heads of keys and values, H and E features.

    Args:
        query: (*batch, T, N, H), of float64, float32, bfloat16 or float16; any number of batch axes, or none.
        key: (*batch, S, K, H), same dtype. N is a multiple of K: each head of keys serves N / K heads of queries.
        value: (*batch, S, K, E), same dtype.
        bias: added to the scores; broadcasts to (*batch, N, T, S); same dtype. It gets a gradient.
        mask: booleans, broadcasts likewise; False makes a weight exactly 0. That is what softmax's score of -inf
            does, exp(-inf) = 0; tanh(-inf) is -1, so here the weight is masked and not the score.
        scale: a number, not differentiated; by default 1 / sqrt(H).
        is_causal: query i sees the keys up to i.
        query_seq_lengths: integers, shaped like the batch; the weights of queries from there on are 0.
        key_value_seq_lengths: likewise, of keys.
        return_attn: also return the weights.

    Returns:
        output (*batch, T, N, E), or with `return_attn` (output, attn), where attn is (*batch, N, T, S); in the dtype of
        query. A masked weight is 0 and passes no gradient; a query that sees no key has the output 0.

    Take this face where reverse mode comes first, `dot_product_attention_ad` where forward mode does; see
    `jax_ref.attn`. It may be mapped over any of its arguments.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size; see `jax_ref._validate_attention`.
    """
    if return_attn:
        query = _mapped_with(value, query)
    return _attention(
        masked,
        (query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths),
        scale=scale,
        is_causal=is_causal,
        return_attn=return_attn,
    )


def dot_product_attention_ad(
    query,
    key,
    value,
    bias=None,
    mask=None,
    *,
    scale=None,
    is_causal=False,
    query_seq_lengths=None,
    key_value_seq_lengths=None,
    return_attn=False,
):
    """`dot_product_attention` with its explicit JVP: the face for forward mode, and for any mix of modes.

    Same values, arguments and errors. Reverse mode is JAX's transpose of the explicit JVP.
    """
    return _attention(
        masked_ad,
        (query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths),
        scale=scale,
        is_causal=is_causal,
        return_attn=return_attn,
    )


def _attention(core, args, *, scale, is_causal, return_attn):
    validate_attention(*args, scale=scale)
    scale = 1 / math.sqrt(max(args[0].shape[-1], 1)) if scale is None else float(scale)

    def one_head(q, k, v, bias, mask, q_length, k_length):
        rows, columns = jnp.arange(q.shape[0]), jnp.arange(k.shape[0])
        return core(scale, q, k, v, bias, seen(mask, rows, columns, is_causal, q_length, k_length))

    output, attn = _of_heads(one_head, *args)
    return (output, attn) if return_attn else output


def seen(
    mask: jax.Array | None,
    rows: Int[Array, " n"],
    columns: Int[Array, " m"],
    is_causal: bool,
    q_length: Int[Array, ""] | None,
    k_length: Int[Array, ""] | None,
) -> jax.Array | None:
    """Which of these rows and columns of a matrix are not masked, broadcasting to (n, m); `None` for all."""
    row, column = rows[:, None], columns[None, :]
    terms = [
        mask,
        row >= column if is_causal else None,
        None if q_length is None else row < q_length,
        None if k_length is None else column < k_length,
    ]
    present = [term for term in terms if term is not None]
    return functools.reduce(jnp.logical_and, present) if present else None


def _of_heads(one_head: Attention, query, key, value, bias, mask, q_lengths, k_lengths) -> tuple[jax.Array, jax.Array]:
    """one_head, mapped over the batch axes, the heads of the keys, and the heads of queries that share them."""
    *batch, T, N, H = query.shape
    K = key.shape[-2]
    G = N // max(K, 1)
    query = query.reshape(*batch, T, K, G, H)
    bias, bias_axes = _grouped(bias, len(batch), K, G)
    mask, mask_axes = _grouped(mask, len(batch), K, G)
    q_lengths, k_lengths = (None if x is None else x.reshape(batch) for x in (q_lengths, k_lengths))
    # in_axes of query, key, value and the lengths, and out_axes of output and attn, for each level of vmap
    levels = [((0, 0, 0), 0, (0, 0))] * len(batch) + [((1, 1, 1), None, (1, 0)), ((1, None, None), None, (1, 0))]
    for (arrays, lengths, out), of_bias, of_mask in reversed([*zip(levels, bias_axes, mask_axes, strict=True)]):
        of_lengths = (None if x is None else lengths for x in (q_lengths, k_lengths))
        one_head = jax.vmap(one_head, in_axes=(*arrays, of_bias, of_mask, *of_lengths), out_axes=out)
    output, attn = one_head(query, key, value, bias, mask, q_lengths, k_lengths)
    return output.reshape(*batch, T, N, value.shape[-1]), attn.reshape(*batch, N, T, key.shape[-3])


def _grouped(x: jax.Array | None, batch: int, K: int, G: int) -> tuple[jax.Array | None, list[int | None]]:
    """A bias or mask without its axes of size 1 but the last two, and which axis each level of vmap maps, if any.

    An axis that broadcasts is not mapped, rather than copied: JAX sums the cotangent over it.
    """
    if x is None:
        return None, [None] * (batch + 2)
    *sizes, N, T, S = (1,) * (batch + 3 - x.ndim) + x.shape
    mapped = *sizes, *((1, 1) if N == 1 else (K, G))
    return x.reshape(*(size for size in mapped if size != 1), T, S), [None if size == 1 else 0 for size in mapped]


def _mapped_with(other: jax.Array, x: jax.Array) -> jax.Array:
    """x, but mapped by every `jax.vmap` that maps the other.

    JAX (0.10.2) counts the cotangent of an output of a mapped custom_vjp that is not mapped itself, here attn if value
    alone is mapped, once for every example.
    """
    return jnp.where(False, jnp.sum(jax.lax.stop_gradient(other)), x)
