"""The results of a recorded call that are compared, of a reference in JAX and of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parity_tests.sweep.invariants import INVARIANTS, NOT_COMPARED
from parity_tests.sweep.recorded_calls import RecordedCall
from parity_tests.sweep.torch_invariants import TORCH_INVARIANTS
from torch_impl.derivatives import Entry


def is_double(x: Any) -> bool:
    """Whether a value is an array of double precision, real or complex."""
    return isinstance(x, np.ndarray) and x.dtype in (np.float64, np.complex128)


def compared_of_jax(entry: Entry, call: RecordedCall, primal: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reference with the results that are compared."""
    return _compared(entry, call, primal, (tuple, list), INVARIANTS)


def compared_of_torch(entry: Entry, call: RecordedCall, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of PyTorch's with the results that are compared."""
    return _compared(entry, call, function, (tuple,), TORCH_INVARIANTS)


def _compared(
    entry: Entry, call: RecordedCall, function: Callable[..., Any], several: tuple[type, ...], invariants: Any
) -> Callable[..., Any]:
    packet = call.name.partition(".")[0]

    def compared(*inputs: Any) -> Any:
        results = function(*inputs)
        if not isinstance(results, several):
            return results
        if packet in INVARIANTS:
            return invariants[packet](call.arguments, *results)
        return tuple(results[i] for i in _places(entry, call))

    return compared


def _places(entry: Entry, call: RecordedCall) -> list[int]:
    """The results of several that are compared: no buffers, and no numbers that have no derivative by the entry."""
    left_out = NOT_COMPARED.get(call.name.partition(".")[0], ())
    whole = len(call.results) == len(entry.differentiable_outputs)  # and no list of tensors
    moves = entry.differentiable_outputs if whole else [True] * len(call.results)
    return [i for i, y in enumerate(call.results) if i not in left_out and (moves[i] or not is_double(y))]
