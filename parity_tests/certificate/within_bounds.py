"""Values of a JAX function with bounds of their rounding errors, and the combination whose gradient is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
import torch

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.rounding.analysis import bounded

Pair = tuple[np.ndarray, np.ndarray]


def bounds_of(f: Callable[..., Sequence[jax.Array]], args: Sequence[np.ndarray]) -> list[Pair] | str:
    """Return the values of a function of float64 numbers, with bounds; why there are none, if there are none."""
    closed = jax.make_jaxpr(f)(*args)
    try:
        return bounded(closed, *args, precision=FLOAT64)
    except NoRule as error:
        return str(error)


def cotangents_of(outputs: Sequence[torch.Tensor], seed: int) -> list[np.ndarray]:
    """Return random numbers of the shapes of results; of those that are no real numbers, zeros."""
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=tuple(y.shape)) for y in outputs]
    return [x if y.dtype == torch.float64 else np.zeros_like(x) for x, y in zip(drawn, outputs, strict=True)]
