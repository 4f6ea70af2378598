"""Tanh attention for models: the arguments and layout of `jax.nn.dot_product_attention`, the formulas of the oracle.

A head of an example is one call of `jax_ref._masked`; batch axes, heads and groups of heads are `jax.vmap`s of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, overload

import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jax_ref._blockwise import Static, blockwise, blockwise_ad
from jax_ref._masked import masked, masked_ad, seen
from jax_ref._validate_attention import validate_attention

Implementation = Literal["matrix", "blockwise"]

# Entries of the matrix of a head, from which on "blockwise" is the faster one; see derivation/model.md.
LARGE = 1024 * 1024


@overload
def dot_product_attention(
    query: Float[Array, "*batch T N H"],
    key: Float[Array, "*batch S K H"],
    value: Float[Array, "*batch S K E"],
    bias: Float[Array, "*#batch #N #T #S"] | None = None,
    mask: Bool[Array, "*#batch #N #T #S"] | None = None,
    *,
    scale: float | jax.Array | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "*batch"] | None = None,
    key_value_seq_lengths: Int[Array, "*batch"] | None = None,
    return_attn: Literal[False] = False,
    implementation: Implementation | None = None,
    block_size: int = 512,
) -> Float[Array, "*batch T N E"]: ...


@overload
def dot_product_attention(
    query: Float[Array, "*batch T N H"],
    key: Float[Array, "*batch S K H"],
    value: Float[Array, "*batch S K E"],
    bias: Float[Array, "*#batch #N #T #S"] | None = None,
    mask: Bool[Array, "*#batch #N #T #S"] | None = None,
    *,
    scale: float | jax.Array | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Array, "*batch"] | None = None,
    key_value_seq_lengths: Int[Array, "*batch"] | None = None,
    return_attn: Literal[True],
    implementation: Implementation | None = None,
    block_size: int = 512,
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
    implementation=None,
    block_size=512,
):
    """output = attn v, attn = mask ∘ tanh(scale q kᵀ + bias), for every head, with its explicit VJP.

    The arguments, their order and their layout are those of `jax.nn.dot_product_attention`, with tanh in the place of
    softmax. The axes: T queries, S keys, N heads of queries, K heads of keys and values, H and E features.

    Args:
        query: (*batch, T, N, H), of float64, float32, bfloat16 or float16; any number of batch axes, or none.
        key: (*batch, S, K, H), same dtype. N is a multiple of K: each head of keys serves N / K heads of queries.
        value: (*batch, S, K, E), same dtype.
        bias: added to the scores; broadcasts to (*batch, N, T, S); same dtype, or float32 where query has 16 bits.
            It gets a gradient.
        mask: booleans, broadcasts likewise; False makes a weight exactly 0. That is what softmax's score of -inf
            does, exp(-inf) = 0; tanh(-inf) is -1, so here the weight is masked and not the score.
        scale: a number; by default 1 / sqrt(H). One that is traced multiplies the query, in its dtype, and is
            differentiated; any other is not.
        is_causal: query i sees the keys up to i.
        query_seq_lengths: integers, shaped like the batch; the weights of queries from there on are 0.
        key_value_seq_lengths: likewise, of keys.
        return_attn: also return the weights.
        implementation: "matrix" holds the weights of all heads; "blockwise" never more than `block_size` rows or
            columns of each, computes them again in the derivatives, and cannot return them. By default "blockwise" if
            T S is at least 1024 x 1024 and the weights are not asked for; "matrix" where T or S is a symbolic size of
            `jax.export`.
        block_size: of "blockwise": the queries in a block; reverse mode goes by half as many keys.

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
    args = query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths
    return _attention(masked, blockwise, args, scale, is_causal, return_attn, implementation, block_size)


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
    implementation=None,
    block_size=512,
):
    """`dot_product_attention` with its explicit JVP: the face for forward mode, and for any mix of modes.

    Same values, arguments and errors. Reverse mode is JAX's transpose of the explicit JVP.
    """
    args = query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths
    return _attention(masked_ad, blockwise_ad, args, scale, is_causal, return_attn, implementation, block_size)


def _attention(matrix: Callable, blocks: Callable, args, scale, is_causal, return_attn, implementation, block_size):
    options = {"return_attn": return_attn, "implementation": implementation, "block_size": block_size}
    validate_attention(*args, scale=scale, **options)
    if isinstance(scale, jax.core.Tracer):  # a factor like any other, with a derivative
        args, scale = (args[0] * scale.astype(args[0].dtype), *args[1:]), 1.0
    (T, _, H), S = args[0].shape[-3:], args[1].shape[-3]
    scale = 1 / math.sqrt(max(H, 1)) if scale is None else float(scale)
    if implementation is None:
        known = isinstance(T, int) and isinstance(S, int)  # and no size that `jax.export` keeps open
        implementation = "blockwise" if known and T * S >= LARGE and not return_attn else "matrix"

    def of_matrix(q, k, v, bias, mask, q_length, k_length):
        mask = seen(mask, jnp.arange(q.shape[0]), jnp.arange(k.shape[0]), is_causal, q_length, k_length)
        output, attn = matrix(scale, q, k, v, bias, mask)
        return (output, attn) if return_attn else output

    def of_blocks(*head):
        return blocks(Static(scale, is_causal, block_size), *head)

    return _of_heads(of_blocks if implementation == "blockwise" else of_matrix, return_attn, *args)


def _of_heads(one_head: Callable, return_attn: bool, query, key, value, bias, mask, q_lengths, k_lengths):
    """one_head, mapped over the batch axes, the heads of the keys, and the heads of queries that share them.

    An axis of size 1 is not mapped but left out: XLA on CPU copies a matrix in the product with a batch of one.
    """
    *batch, T, N, _ = query.shape
    K = key.shape[-2]
    groups = N // max(K, 1)
    bias, bias_sizes = _by_group(bias, batch, K, groups)
    mask, mask_sizes = _by_group(mask, batch, K, groups)
    args = (
        query.reshape(*_mapped(batch), T, *_mapped((K, groups)), query.shape[-1]),
        *(x.reshape(*_mapped(batch), x.shape[-3], *_mapped((K,)), x.shape[-1]) for x in (key, value)),
        *(bias, mask),
        *(None if x is None else x.reshape(_mapped(batch)) for x in (q_lengths, k_lengths)),
    )
    # For each level of vmap the in_axes of query, key, value and of the lengths, and the out_axis of output.
    levels = [((0, 0, 0), 0, 0)] * len(batch) + [((1, 1, 1), None, 1), ((1, None, None), None, 1)]
    sizes = zip((*batch, K, groups), levels, bias_sizes, mask_sizes, strict=True)
    for size, (arrays, lengths, out), of_bias, of_mask in reversed([*sizes]):
        if size != 1:
            of_bias, of_mask = (None if x == 1 else 0 for x in (of_bias, of_mask))
            of_lengths = (None if x is None else lengths for x in (q_lengths, k_lengths))
            out_axes = (out, 0) if return_attn else out
            one_head = jax.vmap(one_head, in_axes=(*arrays, of_bias, of_mask, *of_lengths), out_axes=out_axes)
    output, attn = one_head(*args) if return_attn else (one_head(*args), None)
    output = output.reshape(*batch, T, N, value.shape[-1])
    return output if attn is None else (output, attn.reshape(*batch, N, T, key.shape[-3]))


def _mapped(sizes: Iterable[int]) -> list[int]:
    """The sizes of the axes that are mapped."""
    return [size for size in sizes if size != 1]


def _by_group(x: jax.Array | None, batch: list[int], K: int, groups: int) -> tuple[jax.Array | None, tuple[int, ...]]:
    """A bias or mask without its axes of size 1 but the last two, and the size it has for each level of vmap.

    An axis that broadcasts is not mapped, rather than copied: JAX sums the cotangent over it.
    """
    if x is None:
        return None, (1,) * (len(batch) + 2)
    *sizes, N, T, S = (1,) * (len(batch) + 3 - x.ndim) + x.shape
    sizes = *sizes, *((1, 1) if N == 1 else (K, groups))
    return x.reshape(*_mapped(sizes), T, S), sizes


def _mapped_with(other: jax.Array, x: jax.Array) -> jax.Array:
    """x, but mapped by every `jax.vmap` that maps the other.

    JAX 0.10.2 counts the cotangent of an output of a mapped custom_vjp that is not mapped itself, here attn if value
    alone is mapped, once for every example; JAX 0.12.0.1 raises a ValueError.
    """
    return jnp.where(False, jnp.sum(jax.lax.stop_gradient(other)), x)
