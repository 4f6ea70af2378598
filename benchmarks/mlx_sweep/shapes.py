"""Functions that move entries, take them, or write them."""

from __future__ import annotations

import jax.numpy as jnp
import mlx.core as mx
import numpy as np

from benchmarks.mlx_sweep._operator import full
from gradparity import integer

MATRIX = "(n,m)->(n,m)"


def _updated(x, y):
    x = mx.array(x)
    x[1:3] = y
    return x


def _added_at(x, i, y):
    return x.at[i].add(y)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Indices from 0 to 7, none of them twice; at most eight of them."""
    return rng.permutation(8)[: shape[0]]


AT = "(n),(k),(k)->(n)"

OPERATORS = (
    full(
        "concatenate",
        lambda x, y: mx.concatenate([x, y], 0),
        lambda x, y: jnp.concatenate([x, y]),
        "(n,d),(m,d)->(k,d)",
        sizes="k = n + m",
    ),
    full("stack", lambda x, y: mx.stack([x, y], 1), lambda x, y: jnp.stack([x, y], 1), "(n),(n)->(n,2)"),
    full(
        "split",
        lambda x: tuple(mx.split(x, 2, 0)),
        lambda x: tuple(jnp.split(x, 2)),
        "(n,d)->(k,d),(k,d)",
        sizes="n % 2 == 0, k = n // 2",
    ),
    full("transpose", lambda x: mx.transpose(x) * 2, lambda x: x.T * 2, "(n,m)->(m,n)"),
    full(
        "reshape",
        lambda x: mx.reshape(x, (-1,)),
        lambda x: x.reshape(-1),
        "(n,m)->(k)",
        sizes="k = n * m, n >= 1, m >= 1",
    ),
    full("flip", lambda x: x[::-1], lambda x: x[::-1], MATRIX),
    full("roll", lambda x: mx.roll(x, 2, 0), lambda x: jnp.roll(x, 2, 0), MATRIX, sizes="n >= 1"),
    full("pad", lambda x: mx.pad(x, (1, 2)), lambda x: jnp.pad(x, (1, 2)), "(n)->(k)", sizes="k = n + 3"),
    full(
        "pad, edge",
        lambda x: mx.pad(x, (1, 2), "edge"),
        lambda x: jnp.pad(x, (1, 2), "edge"),
        "(n)->(k)",
        sizes="n >= 1, k = n + 3",
    ),
    full("tile", lambda x: mx.tile(x, (2, 3)), lambda x: jnp.tile(x, (2, 3)), "(n,m)->(k,l)", sizes="k = 2*n, l = 3*m"),
    full(
        "repeat",
        lambda x: mx.repeat(x, 3, 0),
        lambda x: jnp.repeat(x, 3, 0),
        "(n,m)->(k,m)",
        sizes="k = 3*n, n >= 1, m >= 1",
    ),
    full(
        "broadcast_to",
        lambda x: mx.broadcast_to(x, (3, *x.shape)),
        lambda x: jnp.broadcast_to(x, (3, *x.shape)),
        "(n)->(3,n)",
    ),
    full("diag", lambda x: mx.diag(x), lambda x: jnp.diag(x), "(n)->(n,n)", sizes="n >= 1"),
    full("diagonal", lambda x: mx.diagonal(x), lambda x: jnp.diagonal(x), "(n,n)->(n)", sizes="n >= 1"),
    full("trace", lambda x: mx.trace(x), lambda x: jnp.trace(x), "(n,n)->()", sizes="n >= 1"),
    full("tril", lambda x: mx.tril(x), lambda x: jnp.tril(x), MATRIX),
    full("triu", lambda x: mx.triu(x, 1), lambda x: jnp.triu(x, 1), MATRIX),
    full("slice", lambda x: x[1::2] * 2, lambda x: x[1::2] * 2, "(n)->(k)", sizes="n >= 2, k = n // 2"),
    full("slice_update", _updated, lambda x, y: x.at[1:3].set(y), "(n),(2)->(n)", sizes="n >= 3"),
    full(
        "take",
        lambda x, i: mx.take(x, i, 0),
        lambda x, i: jnp.take(x, i, 0),
        "(n,m),(k)->(k,m)",
        domains={"i": integer(0, "n")},
        sizes="n >= 1",
    ),
    full(
        "take_along_axis",
        lambda x, i: mx.take_along_axis(x, i, 1),
        lambda x, i: jnp.take_along_axis(x, i, 1),
        "(n,m),(n,k)->(n,k)",
        domains={"i": integer(0, "m")},
        sizes="m >= 1",
    ),
    full("at add", _added_at, _added_at, AT, domains={"i": integer(0, "n")}, sizes="n >= 1"),
    full(
        "at multiply",
        lambda x, i, y: x.at[i].multiply(y),
        lambda x, i, y: x.at[i].multiply(y, unique_indices=True),
        AT,
        domains={"i": distinct},
        sizes="n >= 8, k <= 8",
    ),
    full(
        "at maximum",
        lambda x, i, y: x.at[i].maximum(y),
        lambda x, i, y: x.at[i].max(y),
        AT,
        domains={"i": distinct},
        sizes="n >= 8, k <= 8",
    ),
    full(
        "at set",
        lambda x, i, y: mx.put_along_axis(x, i, y, 0),
        lambda x, i, y: x.at[i].set(y),
        AT,
        domains={"i": distinct},
        sizes="n >= 8, k <= 8",
    ),
    full(
        "as_strided",
        lambda x: mx.as_strided(x, (x.size - 1, 2), (1, 1)),
        lambda x: jnp.stack([x[:-1], x[1:]], 1),
        "(n)->(k,2)",
        sizes="n >= 2, k = n - 1",
    ),
)
