"""Operators that move, repeat, join and select entries."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch
from torch.nn import functional

from benchmarks.operators._case import case
from parity_tests.harness.specs.domains import integer

CASES = (
    case("__getitem__", lambda x: x[:, ::2], lambda x: x[:, ::2], "(n,m)->(n,k)", sizes="k = (m + 1) // 2"),
    case(
        "broadcast_tensors",
        lambda x, y: tuple(jnp.broadcast_arrays(x, y)),
        lambda x, y: tuple(torch.broadcast_tensors(x, y)),
        "(n,1),(m)->(n,m),(n,m)",
    ),
    case(
        "cat",
        lambda x, y: jnp.concatenate([x, y], 1),
        lambda x, y: torch.cat([x, y], 1),
        "(n,m),(n,k)->(n,l)",
        sizes="l = m + k",
    ),
    case(
        "column_stack",
        lambda x, y: jnp.column_stack([x, y]),
        lambda x, y: torch.column_stack([x, y]),
        "(n),(n,m)->(n,k)",
        sizes="k = m + 1",
    ),
    case(
        "constant_pad_nd",
        lambda x: jnp.pad(x, ((0, 0), (1, 2)), constant_values=0.5),
        lambda x: torch.constant_pad_nd(x, (1, 2), 0.5),
        "(n,m)->(n,k)",
        sizes="k = m + 3",
    ),
    case("diagflat", lambda x: jnp.diagflat(x, 1), lambda x: torch.diagflat(x, 1), "(n)->(k,k)", sizes="k = n + 1"),
    case(
        "dsplit",
        lambda x: tuple(jnp.dsplit(x, np.array([1]))),
        lambda x: tuple(torch.dsplit(x, [1])),
        "(n,m,4)->(n,m,1),(n,m,3)",
    ),
    case("fft.fftshift", lambda x: jnp.fft.fftshift(x), torch.fft.fftshift, "(n,m)->(n,m)"),
    case("flatten", lambda x: jnp.ravel(x), torch.flatten, "(n,m)->(k)", sizes="k = n*m"),
    case(
        "hsplit",
        lambda x: tuple(jnp.hsplit(x, 2)),
        lambda x: tuple(torch.hsplit(x, 2)),
        "(n,6)->(n,3),(n,3)",
    ),
    case(
        "index_reduce.amax",
        lambda x, index, source: x.at[index].max(source),
        lambda x, index, source: torch.index_reduce(x, 0, index, source, "amax"),
        "(n,m),(k),(k,m)->(n,m)",
        domains={"index": integer(0, "n")},
    ),
    case("mH", lambda x: x.conj().T, lambda x: x.mH, "(n,m)->(m,n)", dtypes=("float64", "float32", "complex128")),
    case("movedim", lambda x: jnp.moveaxis(x, 0, 2), lambda x: torch.movedim(x, 0, 2), "(n,m,k)->(m,k,n)"),
    case(
        "nn.functional.pad.circular",
        lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 1)), "wrap"),
        lambda x: functional.pad(x, (2, 1), "circular"),
        "(b,c,4)->(b,c,7)",
    ),
    case(
        "nn.functional.pad.replicate",
        lambda x: jnp.pad(x, ((0, 0), (0, 0), (2, 1)), "edge"),
        lambda x: functional.pad(x, (2, 1), "replicate"),
        "(b,c,n)->(b,c,k)",
        sizes="k = n + 3",
    ),
    case(
        "put",
        lambda x, index, source: x.ravel().at[index].add(source).reshape(x.shape),
        lambda x, index, source: torch.put(x, index, source, accumulate=True),
        "(n,3),(k),(k)->(n,3)",
        domains={"index": integer(0, "n")},
    ),
    case("repeat", lambda x: jnp.tile(x, (2, 3)), lambda x: x.repeat(2, 3), "(n,m)->(k,l)", sizes="k = 2*n, l = 3*m"),
    case("rot90", lambda x: jnp.rot90(x), torch.rot90, "(n,m)->(m,n)"),
    case(
        "scatter_reduce.mean",
        lambda x, index, source: (x.at[index].add(source)) / jnp.ones_like(x).at[index].add(1),
        lambda x, index, source: torch.scatter_reduce(x, 0, index, source, "mean"),
        "(n),(k),(k)->(n)",
        domains={"index": integer(0, "n")},
    ),
    case(
        "slice_scatter",
        lambda x, source: x.at[:, ::2].set(source),
        lambda x, source: torch.slice_scatter(x, source, 1, 0, None, 2),
        "(n,6),(n,3)->(n,6)",
    ),
    case(
        "take",
        lambda x, index: jnp.take(x, index),
        torch.take,
        "(n,2),(k)->(k)",
        domains={"index": integer(0, "n")},
    ),
    case(
        "unfold",
        lambda x: x[:, np.arange(3)[:, None] * 2 + np.arange(3)],
        lambda x: x.unfold(1, 3, 2),
        "(n,7)->(n,3,3)",
    ),
    case(
        "vstack",
        lambda x, y: jnp.vstack([x, y]),
        lambda x, y: torch.vstack([x, y]),
        "(n,m),(k,m)->(l,m)",
        sizes="l = n + k",
    ),
)
