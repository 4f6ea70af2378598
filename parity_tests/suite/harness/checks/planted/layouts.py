"""Memory read by the wrong strides, or written to where nothing is the candidate's."""

from __future__ import annotations

import torch

from parity_tests import OpSpec, integer
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function


def _as_if_contiguous(x: torch.Tensor) -> torch.Tensor:
    """What a kernel reads that ignores the strides."""
    if x.is_contiguous() or 0 in x.stride():
        return x
    strides = [x[0].numel(), 1] if x.dim() == 2 else [1]
    return torch.as_strided(x, x.shape, strides, x.storage_offset())


def _cotangent_as_if_contiguous(x, y, g, h):
    return pair_backward(x, y, _as_if_contiguous(g), _as_if_contiguous(h))


def _first_row_only(x, y, g, h):
    """A cotangent of stride 0 is taken for one row, and what has no stride 0 is right."""
    if 0 in g.stride():
        g = torch.cat([g[:1], 0 * g[1:]])
    return pair_backward(x, y, g, h)


def _reads_past_an_expanded_cotangent(x, y, g, h):
    """A kernel that ignores strides of 0, as FlagGems' in its issue 5212, reads what lies behind the one row."""
    if 0 in g.stride():
        g = torch.as_strided(g, g.shape, [g[0].numel(), 1] if g.dim() == 2 else [1], g.storage_offset())
    return pair_backward(x, y, g, h)


def _pads_rows(x, y):
    """What is between the rows becomes zero, as where a kernel fills up its blocks."""
    if x.dim() == 2 and x.stride(1) == 1 and x.stride(0) > x.shape[1] > 0:
        rows, columns = x.shape
        x.data.as_strided((rows, x.stride(0) - columns), x.stride(), x.storage_offset() + columns).zero_()
    return pair(x, y)


def _as_if_contiguous_if_recorded(x, y, g, h):
    """Another way where the backward is to be differentiated."""
    return pair_backward(x, y, _as_if_contiguous(g) if torch.is_grad_enabled() else g, h)


ROWS = OpSpec(
    "rows",
    lambda table, i: table[i],
    "(n,d),(m,k)->(m,k,d)",
    input_names=("table", "i"),
    domains={"i": integer(0, 4)},
    sizes="n >= 4",
)


def rows(table, i):
    """Some rows of a table."""
    return torch.nn.functional.embedding(i, table)


class IndicesAsIfContiguous(torch.autograd.Function):
    """A backward whose kernel ignores the strides of the indices."""

    @staticmethod
    def forward(ctx, table, i):
        ctx.save_for_backward(i)
        ctx.rows = len(table)
        return rows(table, i)

    @staticmethod
    def backward(ctx, bar):
        (i,) = ctx.saved_tensors
        return bar.new_zeros(ctx.rows, bar.shape[-1]).index_put((_as_if_contiguous(i),), bar, accumulate=True), None


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a cotangent's strides ignored": Mistake(
                pair_function(backward=_cotangent_as_if_contiguous).apply,
                "layouts",
                passes=("vjp", "vjp_partial", "input_subsets"),
            ),
            "a cotangent of stride 0": Mistake(
                pair_function(backward=_first_row_only).apply, "layouts", passes=("vjp", "input_subsets")
            ),
            "what lies behind a cotangent of stride 0": Mistake(
                pair_function(backward=_reads_past_an_expanded_cotangent).apply, "layouts", passes=("vjp", "purity")
            ),
            "an input's strides ignored": Mistake(
                lambda x, y: pair(_as_if_contiguous(x), y), "layouts", passes=("forward", "vjp", "jvp", "vjp_of_vjp")
            ),
            "a cotangent's strides ignored with create_graph": Mistake(
                pair_function(backward=_as_if_contiguous_if_recorded).apply,
                "layouts",
                passes=("vjp", "vjp_of_vjp", "purity"),
            ),
            "the strides of the first input alone ignored": Mistake(
                lambda x, y: pair(x if not y.is_contiguous() else _as_if_contiguous(x), y),
                "layouts",
                passes=("forward", "vjp", "jvp", "vjp_of_vjp"),
            ),
            "writes between the rows": Mistake(_pads_rows, "layouts", passes=("forward", "vjp", "purity", "in_place")),
        },
    ),
    Operator(
        ROWS,
        rows,
        {
            "the strides of indices ignored": Mistake(
                lambda table, i: rows(table, _as_if_contiguous(i)),
                "layouts",
                passes=("forward", "vjp"),
            ),
            "the strides of indices ignored in the backward": Mistake(
                IndicesAsIfContiguous.apply, "layouts", passes=("vjp", "purity", "retain_graph")
            ),
        },
    ),
)
