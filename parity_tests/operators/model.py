"""Attention for models: mistakes in its mask, scale, bias, groups and lengths."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parity_tests.catalog import model
from parity_tests.catalog.model import SCALE, as_causal, as_grouped, as_head, as_unbatched
from parity_tests.operators.operator import Mistake, Operator, function
from torch_impl import dot_product_attention

# One head, with a formula written by hand.

_head = as_head(dot_product_attention)


def _backward(
    q, k, v, bias, mask, output_bar, attn_bar, masked=True, scale_of_k=SCALE, sum_bias=torch.sum, mask_of_v=True
):
    scores = SCALE * q @ k.mT + bias
    A = torch.where(mask > 0, torch.tanh(scores), 0)
    D = 1 - torch.tanh(scores) ** 2
    D = D * (mask > 0) if masked else D
    P = D * (attn_bar + output_bar @ v.mT)
    axes = [axis for axis in (0, 1) if bias.shape[axis] != P.shape[axis]]
    bias_bar = sum_bias(P, axes, keepdim=True) if axes else P
    v_bar = (A if mask_of_v else torch.tanh(scores)).mT @ output_bar
    return SCALE * P @ k, scale_of_k * P.mT @ q, v_bar, bias_bar, None


def _jvp(q, k, v, bias, mask, q_dot, k_dot, v_dot, bias_dot, mask_dot, with_bias=True, masked=True):
    tanh = torch.tanh(SCALE * q @ k.mT + bias)
    T = SCALE * (q_dot @ k.mT + q @ k_dot.mT) + (bias_dot if with_bias else 0)
    A, A_dot = torch.where(mask > 0, tanh, 0), (1 - tanh**2) * T
    A_dot = A_dot * (mask > 0) if masked else A_dot
    return A_dot @ v + A @ v_dot, A_dot


def _with(**options):
    return function(_head, lambda *args: _backward(*args, **options))


def _with_jvp(**options):
    return function(_head, _backward, lambda *args: _jvp(*args, **options))


def _of_weights(weights: Callable) -> Callable:
    """One head with other weights for the scores and the mask."""

    def head(q, k, v, bias, mask):
        attn = weights(SCALE * q @ k.mT, bias, mask > 0)
        return attn @ v, attn

    return head


attention_head = Operator(
    model.HEAD,
    _head,
    {
        "mask_missing_in_the_vjp": Mistake(_with(masked=False), "vjp", passes=("forward",)),
        "mask_missing_in_v_bar": Mistake(_with(mask_of_v=False), "vjp", passes=("forward",)),
        "mask_missing_in_the_jvp": Mistake(_with_jvp(masked=False), "jvp", passes=("forward", "vjp")),
        "bias_missing_in_the_jvp": Mistake(_with_jvp(with_bias=False), "jvp", passes=("forward", "vjp")),
        "scale_missing_in_k_bar": Mistake(_with(scale_of_k=1.0), "vjp", passes=("forward",)),
        "scale_squared_in_k_bar": Mistake(_with(scale_of_k=SCALE**2), "vjp", passes=("forward",)),
        "bias_bar_averaged": Mistake(_with(sum_bias=torch.mean), "vjp", passes=("forward",)),
        "bias_bar_of_one_row": Mistake(_with(sum_bias=torch.amax), "vjp", passes=("forward",)),
        "score_of_minus_infinity": Mistake(
            _of_weights(lambda S, B, M: torch.tanh(torch.where(M, S + B, -torch.inf))), "forward"
        ),
        "score_of_zero_before_the_bias": Mistake(
            _of_weights(lambda S, B, M: torch.tanh(torch.where(M, S, 0) + B)), "forward"
        ),
        "mask_inverted": Mistake(_of_weights(lambda S, B, M: torch.where(M, 0, torch.tanh(S + B))), "forward"),
        "bias_scaled": Mistake(_of_weights(lambda S, B, M: torch.where(M, torch.tanh(S + SCALE * B), 0)), "forward"),
    },
)

# Groups and batches.


def _tiled(query, key, value, *args, **options):
    """Head i of the queries has head i mod K of the keys: K, N / K times over, instead of each N / K times."""
    groups = query.shape[-2] // key.shape[-2]
    key, value = (x.repeat(*(1,) * (x.dim() - 2), groups, 1) for x in (key, value))
    return dot_product_attention(query, key, value, *args, **options)


def _first_head_of_keys(query, key, value, *args, **options):
    return dot_product_attention(query, key[..., :1, :], value[..., :1, :], *args, **options)


def _detached_but_for_the_first(query, key, value, *args, **options):
    """The copies of a head of keys are taken for constants: its gradient is that of its first query head."""
    groups = query.shape[-2] // key.shape[-2]

    def copies(x):
        first = torch.arange(x.shape[-2] * groups) % groups == 0
        x = x.repeat_interleave(groups, dim=-2)
        return torch.where(first[:, None], x, x.detach())

    return dot_product_attention(query, copies(key), copies(value), *args, **options)


def _bias_of_the_first_example(query, key, value, bias, *args, **options):
    return dot_product_attention(query, key, value, bias[:1], *args, **options)


def _bias_of_the_first_head(query, key, value, bias, *args, **options):
    return dot_product_attention(query, key, value, bias[..., :1, :, :], *args, **options)


attention_grouped = Operator(
    model.GROUPED,
    as_grouped(dot_product_attention),
    {
        "heads_tiled": Mistake(as_grouped(_tiled), "forward"),
        "first_head_of_keys": Mistake(as_grouped(_first_head_of_keys), "forward"),
        "k_bar_not_summed_over_the_group": Mistake(as_grouped(_detached_but_for_the_first), "vjp", passes=("forward",)),
        "bias_of_the_first_example": Mistake(as_grouped(_bias_of_the_first_example), "forward"),
    },
)

attention_unbatched = Operator(
    model.UNBATCHED,
    as_unbatched(dot_product_attention),
    {
        "heads_tiled": Mistake(as_unbatched(_tiled), "forward"),
        "bias_of_the_first_head": Mistake(as_unbatched(_bias_of_the_first_head), "forward"),
    },
)

# Positions.


def _causal(shift: Callable[[int, int], int]) -> Callable:
    """Query i sees the keys up to i + shift(T, S)."""

    def f(query, key, value, *, is_causal, **lengths):
        T, S = query.shape[-3], key.shape[-3]
        mask = torch.ones(T, S, dtype=torch.bool).tril(shift(T, S))
        return dot_product_attention(query, key, value, mask=mask, **lengths)

    return f


def _lengths_swapped(*args, query_seq_lengths, key_value_seq_lengths, **options):
    lengths = {"query_seq_lengths": key_value_seq_lengths, "key_value_seq_lengths": query_seq_lengths}
    return dot_product_attention(*args, **lengths, **options)


def _longer(name: str) -> Callable:
    """The last position that is there, and one more."""
    return lambda *args, **options: dot_product_attention(*args, **options | {name: options[name] + 1})


def _scaled_by_all_heads(query, *args, **options):
    return dot_product_attention(query, *args, scale=max(query.shape[-1] * query.shape[-2], 1) ** -0.5, **options)


attention_causal = Operator(
    model.CAUSAL,
    as_causal(dot_product_attention),
    {
        "diagonal_left_out": Mistake(as_causal(_causal(lambda T, S: -1)), "forward"),
        "one_key_ahead": Mistake(as_causal(_causal(lambda T, S: 1)), "forward"),
        "aligned_at_the_end": Mistake(as_causal(_causal(lambda T, S: S - T)), "forward"),
        "lengths_swapped": Mistake(as_causal(_lengths_swapped), "forward"),
        "one_query_too_many": Mistake(as_causal(_longer("query_seq_lengths")), "forward"),
        "one_key_too_many": Mistake(as_causal(_longer("key_value_seq_lengths")), "forward"),
        "scaled_by_all_heads": Mistake(as_causal(_scaled_by_all_heads), "forward"),
    },
)
