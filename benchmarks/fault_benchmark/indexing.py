"""Operators with indices: scatter-add, embedding, gather, and the combination of a mixture of experts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.fault_benchmark.kinds import (
    Fault,
    doubled_tile,
    entry,
    half,
    last_block,
    last_one,
    left_out,
    negated_column,
    shifted,
    slight,
    stale_row,
    zero_row,
)
from benchmarks.fault_benchmark.operator import Operator

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


def _base_index_source(rng, sizes):
    n, k, d = sizes["n"], sizes["k"], sizes["d"]
    return [rng.standard_normal((n, d)), _every_index(rng, n, k), rng.standard_normal((k, d))]


def _scatter_add_forward(at, base, index, source):
    return (base.index_add(0, index, source),), (index,)


def _scatter_add_backward(at, saved, bars):
    (index,), (g,) = saved, bars
    source_bar = at("source_bar", g[at("index", index, len(g))], index)
    return at("base_bar", g, index), source_bar


SCATTER_ADD = Operator(
    "scatter-add",
    lambda base, index, source: base.at[index].add(source),
    ("base", "index", "source"),
    _base_index_source,
    _scatter_add_forward,
    _scatter_add_backward,
    (
        Fault("the index is one too large", "index", {"index": lambda i, n: (i + 1) % n}),
        Fault(
            "duplicates get no gradient",
            "index",
            {"source_bar": lambda x, i: x * _only_first_of_each(i)[:, None].to(x.dtype)},
        ),
        Fault("rows that are added to get no gradient", "mask", {"base_bar": lambda g, i: g.index_fill(0, i, 0)}),
        Fault("the last index is left out", "mask", {"source_bar": lambda x, i: torch.cat([x[:-1], 0 * x[-1:]])}),
        Fault(
            "source_bar is shared by duplicates",
            "factor",
            {"source_bar": lambda x, i: x / (i[:, None] == i).sum(1)[:, None]},
        ),
        shifted("source_bar", "source_bar is that of the row before"),
        left_out("base_bar", "base_bar is zero"),
        half("source_bar"),
        entry("source_bar"),
        zero_row("source_bar"),
        doubled_tile("base_bar"),
        negated_column("source_bar"),
        slight("source_bar"),
    ),
    SIZES,
    constants=("index",),
)


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


EMBEDDING = Operator(
    "embedding",
    lambda table, index: table[index],
    ("table", "index"),
    _table_and_index,
    _embedding_forward,
    _embedding_backward,
    (
        Fault(
            "of duplicates only the first is counted",
            "index",
            {"summands": lambda g, i: g * _only_first_of_each(i)[:, None].to(g.dtype)},
        ),
        Fault("row 0 is taken to be padding", "mask", {"table_bar": lambda x, i: torch.cat([0 * x[:1], x[1:]])}),
        Fault("the index is one too large", "index", {"index": lambda i, n: (i + 1) % n}),
        Fault("the gradient is divided by the frequency", "factor", {"table_bar": _divided_by_frequency}),
        last_one("summands", "the last index is left out"),
        last_block("summands", "the last block of indices is left out"),
        shifted("summands", "the cotangent is that of the row before"),
        half("table_bar"),
        entry("table_bar"),
        zero_row("table_bar"),
        doubled_tile("table_bar"),
        negated_column("table_bar"),
        slight("table_bar"),
    ),
    SIZES,
    constants=("index",),
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


GATHER = Operator(
    "gather along rows",
    lambda x, index: jnp.take_along_axis(x, index, axis=1),
    ("x", "index"),
    _rows_and_columns,
    _gather_forward,
    _gather_backward,
    (
        Fault("of duplicates only the first is counted", "index", {"summands": _first_in_each_row}),
        Fault("the index is one too large", "index", {"index": lambda i, n: (i + 1) % n}),
        Fault("the index is that of the row before", "order", {"index": lambda i, n: i.roll(1, 0)}),
        last_one("summands", "the last column of the cotangent is left out", axis=1),
        last_block("summands", "the last block of rows is left out"),
        shifted("summands", "the cotangent is that of the column before", axis=1),
        stale_row("summands", "the cotangent of one row is 10 % too large"),
        half("x_bar"),
        entry("summands"),
        zero_row("x_bar"),
        doubled_tile("x_bar"),
        slight("x_bar"),
    ),
    {
        "small": {"n": 8, "k": 16, "d": 8},
        "medium": {"n": 64, "k": 128, "d": 32},
        "kernel": {"n": 256, "k": 1024, "d": 64},
    },
    constants=("index",),
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


COMBINE = Operator(
    "combination of experts",
    _combine,
    ("w", "x", "index"),
    _experts,
    _combine_forward,
    _combine_backward,
    (
        Fault(
            "the second expert is left out of x_bar",
            "term",
            {"summands": lambda s, i: s * torch.tensor([[1.0], [0.0]]).to(s.dtype)},
        ),
        Fault("the two weights are swapped in x_bar", "order", {"w": lambda w: w.flip(1)}),
        Fault("the weights are left out of x_bar", "factor", {"w": torch.ones_like}),
        Fault("of duplicates only the first is counted", "index", {"summands": _duplicates_dropped}),
        Fault("the index is one too large in w_bar", "index", {"index of w_bar": lambda i, n: (i + 1) % n}),
        Fault("the index is that of the token before in x_bar", "index", {"index": lambda i, n: i.roll(1, 0)}),
        last_block("rows of w_bar", "the last block of features is left out of w_bar", axis=2),
        last_one("summands", "the last token is left out of x_bar"),
        half("w_bar"),
        entry("w_bar"),
        negated_column("x_bar"),
        slight("x_bar"),
    ),
    SIZES,
    constants=("index",),
)

OPERATORS = (SCATTER_ADD, EMBEDDING, GATHER, COMBINE)
