"""Values of a JAX program with bounds of their rounding errors, and the combination whose gradient is taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jax.extend import core

from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.rounding.analysis import bounded

Pair = tuple[np.ndarray, np.ndarray]


def bounds_of(closed: core.ClosedJaxpr, args: Sequence[np.ndarray], precision: Precision = FLOAT64) -> list[Pair] | str:
    """Return a program's values, with bounds for what computes it in a format; why there are none, if there are none.

    Must run inside `numerics.pinned_jax()`.
    """
    try:
        return bounded(closed, *args, precision=precision)
    except NoRule as error:
        return str(error)


def cotangents_of(outputs: Sequence[torch.Tensor], seed: int) -> list[np.ndarray]:
    """Return random numbers of the shapes of results; of those that are no real numbers, zeros."""
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=tuple(y.shape)) for y in outputs]
    return [x if y.dtype == torch.float64 else np.zeros_like(x) for x, y in zip(drawn, outputs, strict=True)]
