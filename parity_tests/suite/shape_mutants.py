"""Planted mistakes in attn that are wrong at some sizes, or for tensors that lie in memory in some way."""

from __future__ import annotations

from collections.abc import Callable

import torch

from parity_tests.suite import layout_mutants
from parity_tests.suite.mutants import Mutant
from torch_impl._attn_function import Attn


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


class TangentsTakenForContiguous(Attn):
    @staticmethod
    def jvp(ctx, q_dot, k_dot, v_dot):
        if q_dot is not None and 0 not in q_dot.stride():
            strides = torch.empty(q_dot.shape, device="meta").stride()
            q_dot = q_dot.as_strided(q_dot.shape, strides, q_dot.storage_offset())
        return Attn.jvp(ctx, q_dot, k_dot, v_dot)


def _reading(read: Callable[[torch.Tensor], torch.Tensor]) -> Callable:
    class MisreadsItsCotangents(Attn):
        @staticmethod
        def backward(ctx, *cotangents):
            return Attn.backward(ctx, *(w if w is None else read(w) for w in cotangents))

    return MisreadsItsCotangents.apply


_FIRST = ("forward", "vjp", "jvp")

SHAPE_MUTANTS: dict[str, Mutant] = {
    "pair_of_queries": Mutant(PairOfQueries.apply, "two queries, swapped", "vjp", ("forward", "jvp", "vjp_of_jvp")),
    "whole_blocks": Mutant(WholeBlocks.apply, "x[:-0] where no tail is left", "vjp", ("forward", "jvp")),
    "negative_part_beyond_a_block": Mutant(
        NegativePartBeyondABlock.apply, "columns beyond 64, unless all is positive", "vjp", ("forward", "vjp_partial")
    ),
    "tangents_taken_for_contiguous": Mutant(
        TangentsTakenForContiguous.apply, "the strides of a tangent ignored", "layouts", (*_FIRST, "adjoint")
    ),
    "offset_ignored": Mutant(_reading(layout_mutants.offset_ignored), "a storage offset ignored", "layouts", _FIRST),
    "gaps_between_rows": Mutant(
        _reading(layout_mutants.rows_taken_for_neighbours), "the row stride ignored", "layouts", _FIRST
    ),
    "mean_for_sum": Mutant(
        _reading(layout_mutants.one_number_for_the_mean), "a cotangent of stride 0 divided", "layouts", _FIRST
    ),
}
