"""The statistics that the forward of a norm saves, as functions of its input.

The operators of `OF_SAVED_STATISTICS` are given them as inputs, but their formulas differentiate them as functions of
another input, so that together with the norm's own formula they make its second derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from parity_tests.sweep.invariants import OF_SAVED_STATISTICS
from parity_tests.sweep.recorded_calls import RecordedCall


def recomputed(call: RecordedCall) -> Callable[[ModuleType, Any], Mapping[str, Any]] | None:
    """Return the saved statistics that such an operator is given, by name, as a function of its input.

    It takes `jax.numpy` or `torch` and an array of theirs. It is None of another operator, and in evaluation, where
    the statistics are constants.
    """
    names, given = OF_SAVED_STATISTICS.get(call.name.partition(".")[0]), call.arguments
    if names is None or not given.get("train", given.get("update", True)):
        return None
    rank = np.ndim(given["input"])
    over_last = len(given.get("normalized_shape", ()))
    axes = tuple(range(rank - over_last, rank)) if over_last else tuple(i for i in range(rank) if i != 1)
    saved_mean, saved_rstd = (np.asarray(given[name]) for name in names)
    # What the forward added to the variance is no argument of all of them.
    eps = saved_rstd**-2.0 - np.var(given["input"], axis=axes).reshape(saved_rstd.shape)

    def of_input(library: ModuleType, x: Any) -> Mapping[str, Any]:
        mean = x.mean(axis=axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=axes).reshape(eps.shape)
        rstd = 1 / library.sqrt(variance + library.asarray(eps))
        return dict(zip(names, (mean.reshape(saved_mean.shape), rstd), strict=True))

    return of_input
