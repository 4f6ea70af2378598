"""Operators that draw random numbers, as functions of their inputs: the stream of random numbers is held fixed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch


@contextlib.contextmanager
def fixed_seed() -> Iterator[None]:
    """Draw the random numbers of one seed on the CPU, and leave the generator as it was.

    `torch.manual_seed` would change the generators of GPUs, too, and writes down a stack trace for each kind of them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


def seeded(operator: Callable[..., Any], **arguments: Any) -> Any:
    """Call an operator of PyTorch with the random numbers of one seed, and leave the generator as it was."""
    with fixed_seed():
        return operator(**arguments)


def _constant(results: Sequence[Any], **_: Any) -> jax.Array:
    """The numbers that were drawn: they replace self, or change with a probability or a rate in jumps only."""
    return jnp.asarray(results[0])


def _dropout(results: Sequence[Any], *, input: Any, p: float, train: bool | None) -> tuple[jax.Array, jax.Array]:
    """The input, scaled, where the mask that was drawn is true; and the mask."""
    x, mask = jnp.asarray(input), jnp.asarray(results[1])
    if train is False:
        return x, mask
    return x * mask.astype(x.dtype) * (0.0 if p == 1 else 1 / (1 - p)), mask


# The references in JAX, which are given the results that PyTorch drew at a call, and its arguments by name.
DRAWN: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_"), _constant),
    **dict.fromkeys(("normal_", "poisson", "random_", "uniform_"), _constant),
    "native_dropout": _dropout,
}
# What draws, too, but has formulas that are no derivatives of its values.
DECLARED: Mapping[str, str] = {
    "normal": "PyTorch declares the derivatives of its samples by the mean and by the deviation to be 0",
    "_standard_gamma": "its formula is for the quantile of the distribution, not for the numbers as they are drawn",
}
