"""Sums, extrema, statistics, scans, and transforms of Fourier."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.scipy.integrate import trapezoid

from benchmarks.operators._case import COMPLEX, Defect, case
from parity_tests.harness.specs.domains import integer

NEIGHBOURS = Defect(
    "26. view_as_complex of strided memory",
    ("forward", "vmap"),
    ("layouts", "saved_tensors", "vmap"),
    ("float64", "float32"),
    ("inputs transposed", "saved tensors moved", "in_dims (-1,)"),
)


def two_or_more(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A mask with two ones in every row, where it has two columns."""
    mask = rng.integers(0, 2, shape)
    mask[..., :2] = 1
    return mask


CASES = (
    case("amax", lambda x: jnp.max(x, 1), lambda x: torch.amax(x, 1), "(n,m)->(n)"),
    case(
        "aminmax",
        lambda x: (jnp.min(x, 1), jnp.max(x, 1)),
        lambda x: tuple(torch.aminmax(x, dim=1)),
        "(n,m)->(n),(n)",
    ),
    case(
        "cumulative_trapezoid",
        lambda x: jnp.cumsum((x[:, 1:] + x[:, :-1]) / 2, 1),
        lambda x: torch.cumulative_trapezoid(x, dim=1),
        "(n,m)->(n,k)",
        sizes="k = max(m, 1) - 1",
    ),
    case("fft.ifftn", lambda z: jnp.fft.ifftn(z), torch.fft.ifftn, "(n,m)->(n,m)", dtypes=COMPLEX),
    case("fft.irfft", lambda z: jnp.fft.irfft(z), torch.fft.irfft, "(n,m)->(n,k)", sizes="k = 2*m - 2", dtypes=COMPLEX),
    case(
        "masked.cumsum",
        lambda x, mask: jnp.cumsum(jnp.where(mask > 0, x, 0), 1),
        lambda x, mask: torch.masked.cumsum(x, 1, mask=mask > 0),
        "(n,m),(n,m)->(n,m)",
        domains={"mask": integer(0, 2)},
    ),
    case(
        "masked.norm",
        lambda x, mask: jnp.linalg.norm(jnp.where(mask > 0, x, 0), axis=1),
        lambda x, mask: torch.masked.norm(x, 2, 1, mask=mask > 0),
        "(n,m),(n,m)->(n)",
        domains={"mask": two_or_more},
        constants=["mask"],
    ),
    case(
        "masked.std",
        lambda x, mask: jnp.std(x, 1, where=mask > 0),
        lambda x, mask: torch.masked.std(x, 1, unbiased=False, mask=mask > 0),
        "(n,m),(n,m)->(n)",
        domains={"mask": two_or_more},
        constants=["mask"],
    ),
    case(
        "nanquantile",
        lambda x: jnp.nanquantile(x, 0.3, axis=1),
        lambda x: torch.nanquantile(x, 0.3, dim=1),
        "(n,m)->(n)",
    ),
    case(
        "nn.functional.softmin",
        lambda x: jax.nn.softmax(-x),
        lambda x: torch.nn.functional.softmin(x, -1),
        "(n,m)->(n,m)",
    ),
    case("std", lambda x: jnp.std(x, 1, ddof=1), lambda x: torch.std(x, 1), "(n,m)->(n)"),
    case("sum", lambda x: jnp.sum(x, 0), lambda x: torch.sum(x, 0), "(n,m)->(m)"),
    case("trapezoid", lambda y, x: trapezoid(y, x), lambda y, x: torch.trapezoid(y, x), "(n,m),(m)->(n)"),
    case(
        "var_mean",
        lambda x: (jnp.var(x, 1, ddof=1), jnp.mean(x, 1)),
        lambda x: torch.var_mean(x, 1),
        "(n,m)->(n),(n)",
    ),
    case(
        "view_as_complex",
        lambda x: jax.lax.complex(x[..., 0], x[..., 1]),
        torch.view_as_complex,
        "(n,2)->(n)",
        NEIGHBOURS,
        dtypes=("float64", "float32"),
    ),
)
