"""Whether an operator computes each entry of its result from the entries at the same place alone."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parity_tests.sweep.calls import arrays_of
from parity_tests.sweep.operators import operator_of
from parity_tests.sweep.recorded_calls import RecordedCall, as_numpy, as_torch

_PROBED = 6  # entries, of which each is computed by itself


def results_of(name: str, arguments: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """PyTorch's results of an operator; None if it refuses."""
    operator = operator_of(name)
    with warnings.catch_warnings(), contextlib.suppress(RuntimeError, TypeError, ValueError, IndexError):
        warnings.simplefilter("ignore")  # of PyTorch's own, on tensors without entries
        results = operator(**{key: as_torch(value) for key, value in arguments.items()})
        returned = tuple(results) if isinstance(results, list | tuple) else (results,)
        return tuple(map(as_numpy, returned))
    return None


def is_elementwise(call: RecordedCall, moving: Sequence[str]) -> bool:
    """Whether each entry of the only result depends on the entries at its place alone, as PyTorch computes it."""
    fixed = [value for name, value in call.arguments.items() if name not in moving]
    inputs = [call.arguments[name] for name in moving]
    if not moving or arrays_of(fixed) or not all(isinstance(x, np.ndarray) and x.size for x in inputs):
        return False
    fading = 1 - np.arange(_PROBED) / 64  # so that no two entries are equal
    with np.errstate(invalid="ignore"):  # an infinite complex number, faded, has a part that is not a number
        probes = {name: np.resize(x, _PROBED) * fading for name, x in zip(moving, inputs, strict=True)}
    together = results_of(call.name, {**call.arguments, **probes})
    if together is None or len(together) != 1 or np.shape(together[0]) != (_PROBED,):
        return False
    for i in range(_PROBED):
        alone = results_of(call.name, {**call.arguments, **{name: x[i : i + 1] for name, x in probes.items()}})
        if alone is None or alone[0].shape != (1,):
            return False
        if not np.allclose(alone[0], together[0][i], equal_nan=True):
            return False
    return True
