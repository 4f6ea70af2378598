"""Indexing and running operators: an embedding, gather, scatter, running sums and products, pooling, sorting."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.nn import functional

from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# An embedding: rows of a table, times 2.


def _embedding(table, index):
    return 2 * table[index]


def _embedding_with(scattered):
    return function(_embedding, lambda table, index, w: (scattered(torch.zeros_like(table), index, 2 * w), None))


def _put(zeros, index, w):
    zeros[index] = w
    return zeros


def _padded(zeros, index, w):
    return zeros.index_add(0, index, w * (index != 0)[:, None])


embedding = Operator(
    OpSpec("embedding", lambda table, index: 2 * table[index], "(v,d),(k)->(k,d)", domains={"index": integer(0, "v")}),
    _embedding,
    {
        "repeated_rows_overwritten": Mistake(_embedding_with(_put), "vjp", passes=("forward",)),
        "row_zero_is_padding": Mistake(_embedding_with(_padded), "vjp", passes=("forward",)),
        "frequency_scaled": Mistake(
            _embedding_with(
                lambda z, i, w: z.index_add(0, i, w / torch.bincount(i, minlength=max(len(z), 1))[i][:, None])
            ),
            "vjp",
        ),
    },
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

# Running sum and product


def _cumsum_with(backward):
    return function(lambda x: x.cumsum(-1), backward, lambda x, d: d.cumsum(-1))


def _cumsum_16_bits(x):
    total, sums = torch.zeros_like(x[..., 0]), []
    for entry in x.unbind(-1):
        total = total + entry
        sums.append(total)
    return torch.stack(sums, -1)


cumsum = Operator(
    OpSpec("cumsum", lambda x: jnp.cumsum(x, axis=-1), "(n,m)->(n,m)"),
    lambda x: x.cumsum(-1),
    {
        "not_reversed": Mistake(_cumsum_with(lambda x, w: w.cumsum(-1)), "vjp", passes=("forward", "jvp")),
        "without_the_last": Mistake(_cumsum_with(lambda x, w: w.flip(-1).cumsum(-1).flip(-1) - w), "vjp"),
        "16_bit_accumulator": Mistake(lambda x: _cumsum_16_bits(x) if x.shape[-1] else x * 1, "forward", "bfloat16"),
    },
)


def _cumprod(x):
    # Not x.cumprod(-1), whose second derivatives by forward mode are wrong beside a zero.
    products = [x[..., 0]]
    for factor in x.unbind(-1)[1:]:
        products.append(products[-1] * factor)
    return torch.stack(products, -1)


def with_zeros(rng, shape):
    """Numbers of which one in five is zero."""
    return rng.standard_normal(shape) * (rng.random(shape) < 0.8)


cumprod = Operator(
    OpSpec("cumprod", lambda x: jnp.cumprod(x, axis=-1), "(n,4)->(n,4)", input_names=("x",), domains={"x": with_zeros}),
    _cumprod,
    {
        "divided_by_zero": Mistake(
            function(_cumprod, lambda x, w: (w * x.cumprod(-1)).flip(-1).cumsum(-1).flip(-1) / x), "vjp"
        ),
        "running_sum_of_the_wrong_end": Mistake(
            function(_cumprod, lambda x, w: (w * x.cumprod(-1)).cumsum(-1) / x), "vjp", passes=("forward",)
        ),
    },
)

# Maximum pooling, and sorting


def _pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (2, 2), ((0, 0), (1, 1)))


def _pool_torch(x):
    return functional.max_pool2d(x[None, None], (2, 3), (2, 2), (0, 1))[0, 0]


def _averaged_back(x, w):
    rows, columns = (torch.arange(n) // 2 for n in x.shape)
    return w[rows][:, columns] / 6


max_pool = Operator(
    OpSpec("max_pool", _pool, "(4,6)->(2,3)", input_names=("x",)),
    _pool_torch,
    {
        "averaged_backward": Mistake(function(_pool_torch, _averaged_back), "vjp", passes=("forward",)),
        "without_padding": Mistake(
            lambda x: functional.max_pool2d(functional.pad(x[None, None], (0, 2)), (2, 3), (2, 2))[0, 0], "forward"
        ),
    },
)


def _apart(rng, shape):
    """Numbers that no rounding reorders: a permutation of 1/2, 1, 3/2, ..., with random signs."""
    order = rng.permuted(np.broadcast_to(np.arange(1, shape[-1] + 1) / 2, shape), axis=-1)
    return order * np.where(rng.random(shape) < 0.5, -1, 1)


def _sort(x):
    return x.sort(-1).values


sort = Operator(
    OpSpec("sort", lambda x: jnp.sort(x, axis=-1) ** 2, "(n,5)->(n,5)", domains={"x": _apart}),
    lambda x: _sort(x) ** 2,
    {
        "permuted_instead_of_restored": Mistake(
            function(lambda x: _sort(x) ** 2, lambda x, w: (2 * w * _sort(x)).gather(-1, x.argsort(-1))), "vjp"
        ),
        "cotangent_not_sent_back": Mistake(function(lambda x: _sort(x) ** 2, lambda x, w: 2 * w * x), "vjp"),
    },
)
