"""Tanh attention for models in plain PyTorch operations; every derivative is autograd's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from torch_impl._validate_attention import validate_attention

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


def dot_product_attention(
    query: Float[Tensor, "*batch T N H"],
    key: Float[Tensor, "*batch S K H"],
    value: Float[Tensor, "*batch S K E"],
    bias: Float[Tensor, "*#batch #N #T #S"] | None = None,
    mask: Bool[Tensor, "*#batch #N #T #S"] | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Int[Tensor, "*batch"] | None = None,
    key_value_seq_lengths: Int[Tensor, "*batch"] | None = None,
    return_attn: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """output = attn v, attn = mask ∘ tanh(scale q kᵀ + bias), for every head: equations (104), (105) and (3).

    The layout is that of `jax.nn.dot_product_attention`, with the heads after the positions, and not that of
    `torch.nn.functional.scaled_dot_product_attention`. The axes: T queries, S keys, N heads of queries, K heads of
    keys and values, H and E features.

    Args:
        query: (*batch, T, N, H), of float64, float32, bfloat16 or float16; any number of batch axes, or none.
        key: (*batch, S, K, H), same dtype. N is a multiple of K: each head of keys serves N / K heads of queries.
        value: (*batch, S, K, E), same dtype.
        bias: added to the scores; broadcasts to (*batch, N, T, S); same dtype.
        mask: booleans, broadcasts likewise; where it is False the weight is 0.
        scale: a number, by default 1 / sqrt(H).
        is_causal: query i sees the keys up to i.
        query_seq_lengths: integers, shaped like the batch; the weights of queries from there on are 0.
        key_value_seq_lengths: likewise, of keys.
        return_attn: also return the weights.

    Returns:
        output (*batch, T, N, E), or with `return_attn` (output, attn), where attn is (*batch, N, T, S).

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size; see `torch_impl._validate_attention`.
    """
    validate_attention(query, key, value, bias, mask, query_seq_lengths, key_value_seq_lengths)
    T, N, H = query.shape[-3:]
    S, K, _ = key.shape[-3:]
    scale = 1 / math.sqrt(max(H, 1)) if scale is None else scale
    groups = N // max(K, 1)
    q, k, v = (x.transpose(-3, -2) for x in (query, key, value))  # (..., heads, positions, features)
    k, v = (x.repeat_interleave(groups, dim=-3) for x in (k, v))
    scores = scale * (q @ k.mT)
    if bias is not None:
        scores = scores + bias  # (104)
    attn = torch.tanh(scores)
    rows = torch.arange(T, device=query.device)[:, None]
    columns = torch.arange(S, device=query.device)
    terms = [mask, columns <= rows if is_causal else None]
    terms += [None if query_seq_lengths is None else rows < _of_examples(query_seq_lengths, query)]
    terms += [None if key_value_seq_lengths is None else columns < _of_examples(key_value_seq_lengths, query)]
    for term in terms:
        if term is not None:
            attn = torch.where(term, attn, 0)  # (105)
    output = (attn @ v).transpose(-3, -2)  # (3)
    return (output, attn) if return_attn else output


def _of_examples(lengths: Tensor, query: Tensor) -> Tensor:
    """Lengths that broadcast against (*batch, N, T, S)."""
    return lengths.reshape(*query.shape[:-3], 1, 1, 1)
