"""Planted mistakes in attn that a product of matrices is needed for: blocks and their tails, sums, transposes.

All others are planted in a smaller operator: see `harness/checks/planted`.
"""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake
from torch_impl._attn_function import Attn


class _Altered(Attn):
    """attn_function with its gradients altered: a mutant overrides `alter`, which has P, (9), and the gradients."""

    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        raise NotImplementedError

    @classmethod
    def backward(cls, ctx, output_bar, attn_bar):
        gradients = Attn.backward(ctx, output_bar, attn_bar)
        if None in gradients:
            return gradients
        return cls.alter(ctx, output_bar, attn_bar, *gradients)


class ReshapedForTransposed(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        attn = ctx.saved_tensors[3]
        return q_bar, k_bar, attn.reshape(attn.shape[1], attn.shape[0]) @ output_bar


class WrongPower(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        P = (attn_bar + output_bar @ v.mT) * (1 - attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class LikeAnotherInput(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        rows = min(q_bar.shape[0], k_bar.shape[0])
        filled = torch.zeros_like(q_bar)
        filled[:rows] = k_bar[:rows]
        return q_bar, filled, v_bar


class StridesIgnored(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        if output_bar is not None and not output_bar.is_contiguous():
            n, e = output_bar.shape
            if output_bar.untyped_storage().nbytes() >= output_bar.element_size() * n * e:
                output_bar = output_bar.as_strided((n, e), (e, 1), 0)
        return Attn.backward(ctx, output_bar, attn_bar)


class TailRowsLeftOut(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        blocks = min(q_bar.shape[0], 32)
        return (torch.cat([q_bar[:blocks], 0 * q_bar[blocks:]])), k_bar, v_bar


class NarrowAccumulator(Attn):
    """Adds up in the storage format: exact enough in float64, not in bfloat16."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        if output_bar is not None and v_bar is not None:
            attn = ctx.saved_tensors[3]
            v_bar = torch.zeros_like(v_bar)
            for row, cotangent in zip(attn, output_bar, strict=True):
                v_bar = v_bar + torch.outer(row, cotangent)
        return q_bar, k_bar, v_bar


class NanOnEmpty(_Altered):
    @staticmethod
    def alter(ctx, output_bar, attn_bar, q_bar, k_bar, v_bar):
        attn = ctx.saved_tensors[3]
        return q_bar + 0 * attn.mean(), k_bar, v_bar


class OverwrittenInForwardMode(Attn):
    """P overwrites G whenever gradients are off, also while forward mode still needs G."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q, k, v, attn = ctx.saved_tensors
        if torch.is_grad_enabled() or output_bar is None or attn_bar is None:
            return Attn.backward(ctx, output_bar, attn_bar)
        G = attn_bar + output_bar @ v.mT
        P = G.addcmul_(G, attn, value=-1).addcmul_(G, attn)
        return P @ k, P.mT @ q, attn.mT @ output_bar


class PairOfQueries(Attn):
    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        return q_bar if q_bar is None or len(q_bar) != 2 else q_bar.flip(0), k_bar, v_bar


class WholeBlocks(Attn):
    """Whole blocks of 64 are all but the last `tail` rows, of which there may be none."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        if v_bar is not None and len(v_bar) > 64:
            tail = len(v_bar) % 64
            whole, v_bar = v_bar, torch.zeros_like(v_bar)
            v_bar[:-tail] = whole[:-tail]
            v_bar[len(whole) - tail :] = whole[len(whole) - tail :]
        return q_bar, k_bar, v_bar


class NegativePartBeyondABlock(Attn):
    """Right up to 64 columns, and where everything is positive."""

    @staticmethod
    def backward(ctx, output_bar, attn_bar):
        q_bar, k_bar, v_bar = Attn.backward(ctx, output_bar, attn_bar)
        if q_bar is not None and (ctx.saved_tensors[0] < 0).any():
            q_bar = torch.cat([q_bar[:, :64], torch.zeros_like(q_bar[:, 64:])], 1)
        return q_bar, k_bar, v_bar


def _mean_for_sum(q, k, v):
    attn = torch.tanh(q @ k.mT)
    return attn @ v / max(1, k.shape[0]), attn


_FIRST = ("forward", "vjp", "jvp")

MUTANTS: dict[str, Mistake] = {
    "mean_for_sum": Mistake(_mean_for_sum, "forward"),
    "reshaped_for_transposed": Mistake(ReshapedForTransposed.apply, "vjp", passes=("forward",)),
    "wrong_power": Mistake(WrongPower.apply, "vjp", passes=("forward", "jvp")),  # 1 - a for 1 - a²
    "like_another_input": Mistake(LikeAnotherInput.apply, "vjp", passes=("forward",)),
    "tail_rows_left_out": Mistake(TailRowsLeftOut.apply, "vjp", passes=("forward",)),
    "nan_on_empty": Mistake(NanOnEmpty.apply, "vjp", passes=("forward",)),
    "narrow_accumulator": Mistake(NarrowAccumulator.apply, "vjp", "bfloat16", passes=("forward",)),
    "pair_of_queries": Mistake(PairOfQueries.apply, "vjp", passes=("forward", "jvp", "vjp_of_jvp")),
    "whole_blocks": Mistake(WholeBlocks.apply, "vjp", passes=("forward", "jvp")),
    "negative_part_beyond_a_block": Mistake(NegativePartBeyondABlock.apply, "vjp", passes=("forward", "vjp_partial")),
    "strides_ignored": Mistake(StridesIgnored.apply, "layouts", passes=_FIRST),
    "overwritten_in_forward_mode": Mistake(
        OverwrittenInForwardMode.apply, "jvp_of_vjp", passes=(*_FIRST, "vjp_of_vjp")
    ),
}
