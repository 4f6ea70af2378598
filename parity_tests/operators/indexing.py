"""Indexing: an embedding, gather, scatter, and the combination of a mixture of experts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch

from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function

SIZES = {
    "small": {"n": 8, "k": 16, "d": 8},
    "medium": {"n": 64, "k": 128, "d": 32},
    "kernel": {"n": 512, "k": 2048, "d": 64},
}


def _only_first_of_each(index: torch.Tensor) -> torch.Tensor:
    """Return 1 where an index occurs for the first time, 0 where it is a duplicate of an earlier one."""
    earlier = (index[:, None] == index).tril(-1)
    return (~earlier.any(1)).double()


def _every_index(rng, n: int, k: int) -> np.ndarray:
    """Return k indices in which each of n occurs at least once, and many more often."""
    return rng.permutation(np.concatenate([np.arange(n), rng.integers(0, n, k - n)]))


# An embedding: rows of a table.


def _table_and_index(rng, sizes):
    n, k, d = sizes["n"], sizes["k"], sizes["d"]
    return [rng.standard_normal((n, d)), _every_index(rng, n, k)]


def _embedding_forward(at, table, index):
    return (table[index],), (index, torch.empty_like(table))


def _embedding_backward(at, saved, bars):
    (index, like), (g,) = saved, bars
    table_bar = torch.zeros_like(like).index_add(0, at("index", index, len(like)), at("summands", g, index))
    return (at("table_bar", table_bar, index),)


def _divided_by_frequency(x, index):
    return x / torch.bincount(index, minlength=len(x)).clamp(min=1)[:, None].to(x.dtype)


def _row_zero_left_out(table_bar, index):
    return torch.cat([0 * table_bar[:1], table_bar[1:]])


def _put(table, index, w):
    zeros = torch.zeros_like(table)
    zeros[index] = w
    return zeros, None


_EMBEDDING = Formulas("embedding", _table_and_index, _embedding_forward, _embedding_backward, SIZES)
embedding = Operator(
    OpSpec("embedding", lambda table, index: table[index], "(v,d),(k)->(k,d)", domains={"index": integer(0, "v")}),
    _EMBEDDING.composed,
    {
        "repeated_rows_overwritten": Mistake(function(_EMBEDDING.composed, _put), "vjp", passes=("forward",)),
        "row_zero_is_padding": _EMBEDDING.mistake({"table_bar": _row_zero_left_out}),
        "frequency_scaled": _EMBEDDING.mistake({"table_bar": _divided_by_frequency}),
    }
    | _EMBEDDING.planted(
        (
            "of duplicates only the first is counted",
            "index",
            {"summands": lambda g, i: g * _only_first_of_each(i)[:, None].to(g.dtype)},
        ),
        ("row 0 is taken to be padding", "mask", {"table_bar": _row_zero_left_out}),
        ("the index is one too large", "index", {"index": lambda i, n: (i + 1) % n}),
        ("the gradient is divided by the frequency", "factor", {"table_bar": _divided_by_frequency}),
        sites.last_one("summands", "the last index is left out"),
        sites.last_block("summands", "the last block of indices is left out"),
        sites.shifted("summands", "the cotangent is that of the row before"),
        sites.half("table_bar"),
        sites.entry("table_bar"),
        sites.zero_row("table_bar"),
        sites.doubled_tile("table_bar"),
        sites.negated_column("table_bar"),
        sites.slight("table_bar"),
    ),
    _EMBEDDING,
)

# gather along the last axis, squared


def _gather(x, index):
    return torch.gather(x, -1, index) ** 2


gather = Operator(
    OpSpec(
        "gather",
        lambda x, index: jnp.take_along_axis(x, index, axis=-1) ** 2,
        "(n,m),(n,k)->(n,k)",
        domains={"index": integer(0, "m")},
    ),
    _gather,
    {
        "along_the_first_axis": Mistake(lambda x, index: x.gather(0, index % max(len(x), 1)) ** 2, "forward"),
        "scattered_without_sum": Mistake(
            function(_gather, lambda x, i, w: (torch.zeros_like(x).scatter(-1, i, 2 * w * x.gather(-1, i)), None)),
            "vjp",
            passes=("forward",),
        ),
    },
)

# scatter-add into rows


def _scatter(x, src, index):
    return x.index_add(0, index, src * src)


def _scatter_in_place(x, src, index):
    y = _scatter(x, src, index)
    x.data.index_add_(0, index, (src * src).data)
    return y


def _scatter_add(x, src, index):
    return x.at[index].add(src * src)


scatter_add = Operator(
    OpSpec("scatter_add", _scatter_add, "(v,d),(k,d),(k)->(v,d)", domains={"index": integer(0, "v")}),
    _scatter,
    {
        "overwritten": Mistake(lambda x, src, index: x.index_copy(0, index, src * src), "forward"),
        "target_dropped": Mistake(
            function(_scatter, lambda x, src, i, w: (torch.zeros_like(x), 2 * src * w[i], None)), "vjp"
        ),
        "target_written": Mistake(_scatter_in_place, "purity"),
    },
)


def _base_index_source(rng, sizes):
    n, k, d = sizes["n"], sizes["k"], sizes["d"]
    return [rng.standard_normal((n, d)), _every_index(rng, n, k), rng.standard_normal((k, d))]


def _scatter_rows_forward(at, base, index, source):
    return (base.index_add(0, index, source),), (index,)


def _scatter_rows_backward(at, saved, bars):
    (index,), (g,) = saved, bars
    source_bar = at("source_bar", g[at("index", index, len(g))], index)
    return at("base_bar", g, index), None, source_bar


scatter_rows = by_formulas(
    lambda base, index, source: base.at[index].add(source),
    Formulas("scatter-add", _base_index_source, _scatter_rows_forward, _scatter_rows_backward, SIZES),
    ("the index is one too large", "index", {"index": lambda i, n: (i + 1) % n}),
    (
        "duplicates get no gradient",
        "index",
        {"source_bar": lambda x, i: x * _only_first_of_each(i)[:, None].to(x.dtype)},
    ),
    ("rows that are added to get no gradient", "mask", {"base_bar": lambda g, i: g.index_fill(0, i, 0)}),
    ("the last index is left out", "mask", {"source_bar": lambda x, i: torch.cat([x[:-1], 0 * x[-1:]])}),
    (
        "source_bar is shared by duplicates",
        "factor",
        {"source_bar": lambda x, i: x / (i[:, None] == i).sum(1)[:, None]},
    ),
    sites.shifted("source_bar", "source_bar is that of the row before"),
    sites.left_out("base_bar", "base_bar is zero"),
    sites.half("source_bar"),
    sites.entry("source_bar"),
    sites.zero_row("source_bar"),
    sites.doubled_tile("base_bar"),
    sites.negated_column("source_bar"),
    sites.slight("source_bar"),
)


def _rows_and_columns(rng, sizes):
    n, k, d = sizes["n"], sizes["k"], sizes["d"]
    return [rng.standard_normal((n, k)), rng.integers(0, k, (n, d))]


def _gather_forward(at, x, index):
    return (x.gather(1, index),), (index, torch.empty_like(x))


def _gather_backward(at, saved, bars):
    (index, like), (g,) = saved, bars
    columns = at("index", index, like.shape[1])
    return (at("x_bar", torch.zeros_like(like).scatter_add(1, columns, at("summands", g, index))),)


def _first_in_each_row(g, index):
    return g * torch.stack([_only_first_of_each(row) for row in index]).to(g.dtype)


gather_along_rows = by_formulas(
    lambda x, index: jnp.take_along_axis(x, index, axis=1),
    Formulas(
        "gather along rows",
        _rows_and_columns,
        _gather_forward,
        _gather_backward,
        {
            "small": {"n": 8, "k": 16, "d": 8},
            "medium": {"n": 64, "k": 128, "d": 32},
            "kernel": {"n": 256, "k": 1024, "d": 64},
        },
    ),
    ("of duplicates only the first is counted", "index", {"summands": _first_in_each_row}),
    ("the index is one too large", "index", {"index": lambda i, n: (i + 1) % n}),
    ("the index is that of the row before", "order", {"index": lambda i, n: i.roll(1, 0)}),
    sites.last_one("summands", "the last column of the cotangent is left out", axis=1),
    sites.last_block("summands", "the last block of rows is left out"),
    sites.shifted("summands", "the cotangent is that of the column before", axis=1),
    sites.stale_row("summands", "the cotangent of one row is 10 % too large"),
    sites.half("x_bar"),
    sites.entry("summands"),
    sites.zero_row("x_bar"),
    sites.doubled_tile("x_bar"),
    sites.slight("x_bar"),
)


def _experts(rng, sizes):
    n, k, d = sizes["n"], sizes["k"], sizes["d"]
    return [rng.uniform(0.1, 0.9, (k, 2)), rng.standard_normal((n, d)), rng.integers(0, n, (k, 2))]


def _combine(w, x, index):
    return (w[..., None] * x[index]).sum(1)


def _combine_forward(at, w, x, index):
    return ((w[..., None] * x[index]).sum(1),), (w, x, index)


def _combine_backward(at, saved, bars):
    (w, x, index), (g,) = saved, bars
    w_bar = at("w_bar", (g[:, None] * at("rows of w_bar", x[at("index of w_bar", index, len(x))])).sum(-1))
    summands = at("summands", at("w", w)[..., None] * g[:, None], index)
    x_bar = torch.zeros_like(x).index_add(0, at("index", index, len(x)).flatten(), summands.flatten(0, 1))
    return w_bar, at("x_bar", x_bar)


def _duplicates_dropped(x, index):
    return x * _only_first_of_each(index.flatten()).reshape(index.shape)[..., None].to(x.dtype)


combine = by_formulas(
    _combine,
    Formulas("combination of experts", _experts, _combine_forward, _combine_backward, SIZES),
    (
        "the second expert is left out of x_bar",
        "term",
        {"summands": lambda s, i: s * torch.tensor([[1.0], [0.0]]).to(s.dtype)},
    ),
    ("the two weights are swapped in x_bar", "order", {"w": lambda w: w.flip(1)}),
    ("the weights are left out of x_bar", "factor", {"w": torch.ones_like}),
    ("of duplicates only the first is counted", "index", {"summands": _duplicates_dropped}),
    ("the index is one too large in w_bar", "index", {"index of w_bar": lambda i, n: (i + 1) % n}),
    ("the index is that of the token before in x_bar", "index", {"index": lambda i, n: i.roll(1, 0)}),
    sites.last_block("rows of w_bar", "the last block of features is left out of w_bar", axis=2),
    sites.last_one("summands", "the last token is left out of x_bar"),
    sites.half("w_bar"),
    sites.entry("w_bar"),
    sites.negated_column("x_bar"),
    sites.slight("x_bar"),
)
