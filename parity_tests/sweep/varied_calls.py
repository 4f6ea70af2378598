"""Calls like PyTorch's own samples that these leave out: options switched on, batches, integers, scales, ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from parity_tests.sweep.calls import calls_of
from parity_tests.sweep.drawn import fixed_seed
from parity_tests.sweep.elementwise import results_of
from parity_tests.sweep.operators import operator_of
from parity_tests.sweep.recorded_calls import RecordedCall

Made = Iterator[tuple[str, dict[str, Any]]]

_WITHOUT_STATISTICS = "aten::_native_batch_norm_legit.no_stats"  # which it reads all the same if it does not train
_SCALE = 1.1  # of a size that stays: 1.1 n is n, rounded down, up to n = 9
_SIZES_FIRST = 2  # the axes of examples and of channels, before those that are resampled


def judged_calls(operator: str, dtype: str) -> Sequence[RecordedCall]:
    """Return the calls at which an operator is judged: those of `calls_of`, and those like them.

    Args:
        operator: with its overload, as derivatives.yaml names it: "sum.dim_IntList".
        dtype: "float64", or "complex128" for calls with an array of that dtype.
    """
    chosen = calls_of(operator, dtype)
    return [*chosen, *varied_calls(chosen)]


def varied_calls(chosen: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return calls like one of these, with PyTorch's results; where PyTorch refuses one, it is left out.

    Each boolean option that has one value in all of them has the other one; an argument beside another one is given as
    integers, and as a mask; matrices are a batch of as many as they have rows; sizes that are resampled stay, and their
    scales are not 1. And those that are written out here, for the operators that need others.

    Args:
        chosen: calls of one operator.
    """
    if not chosen:
        return []
    first, seen, found = min(chosen, key=_simplest), {call.signature for call in chosen}, []
    with fixed_seed():
        made = [*_switched(first, chosen), *_integers(first), *_batched(first), *_scaled(first), *_written(first)]
    for why, arguments in made:
        with fixed_seed():
            results = results_of(first.name, arguments)
        if results is not None:
            call = RecordedCall(first.name, arguments, results, f"{first.source}: {why}")
            found += [] if call.signature in seen else [call]
            seen.add(call.signature)
    return found


def _switched(first: RecordedCall, chosen: Sequence[RecordedCall]) -> Made:
    if first.name == _WITHOUT_STATISTICS:
        return
    for argument in operator_of(first.name)._schema.arguments:
        values = {_value(call, argument) for call in chosen if isinstance(_value(call, argument), bool)}
        if len(values) == 1:
            (value,) = values
            yield f"{argument.name}={not value}", {**first.arguments, argument.name: not value}


def _value(call: RecordedCall, argument: Any) -> Any:
    """The value of an option in a call; None if it is no option."""
    if "bool" not in str(argument.type) or "List" in str(argument.type):
        return None
    return call.arguments.get(argument.name, argument.default_value)


def _numbers(call: RecordedCall) -> dict[str, np.ndarray]:
    """The arguments that are arrays of real or complex numbers."""
    arrays = {name: x for name, x in call.arguments.items() if isinstance(x, np.ndarray)}
    return {name: x for name, x in arrays.items() if x.dtype.kind in "fc" and x.size}


def _simplest(call: RecordedCall) -> tuple[bool, int, int]:
    """Last a call on single numbers; first one on many arrays, and of these on small ones."""
    sizes = [x.size for x in _numbers(call).values()]
    return max(sizes, default=0) <= 1, -len(sizes), sum(sizes)


def _integers(call: RecordedCall) -> Made:
    numbers = {} if call.is_internal else _numbers(call)
    for name, x in numbers.items() if len(numbers) > 1 else ():
        small = np.asarray(np.clip(np.rint(np.real(x)), -3, 3))
        yield f"{name} of integers", {**call.arguments, name: small.astype(np.int64)}
        yield f"{name} a mask", {**call.arguments, name: np.asarray(small > 0)}


def _batched(call: RecordedCall) -> Made:
    """One argument at a time a batch of as many matrices as rows, so that another one could be taken for vectors."""
    numbers = _numbers(call)
    if not numbers or any(x.ndim != 2 for x in numbers.values()):
        return
    for name, x in numbers.items() if len(numbers) > 1 else ():
        sizes = 1 + np.arange(len(x)) / 8
        yield f"as many of {name} as rows", {**call.arguments, name: x * sizes.reshape(-1, 1, 1).astype(x.dtype)}


def _scaled(call: RecordedCall) -> Made:
    schema = operator_of(call.name)._schema
    scales = [a.name for a in schema.arguments if a.name.startswith("scales")]
    name = next((each for each in ("self", "grad_output") if each in call.arguments), "")
    x = call.arguments.get(name)
    if scales and "output_size" in call.arguments and isinstance(x, np.ndarray):
        stays = {"output_size": list(x.shape[_SIZES_FIRST:]), **dict.fromkeys(scales, _SCALE)}
        if "input_size" in call.arguments:
            stays["input_size"] = list(x.shape)
        if "align_corners" in call.arguments:  # with which scales do not count
            stays["align_corners"] = False
        yield "sizes that stay at scales of 1.1", {**call.arguments, **stays}


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


_ROWS = np.array([0, 1, 1, 2])
_SQUARE = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 2.0]])
_WRITTEN: dict[str, Callable[[], dict[str, Any]]] = {
    # Distances of which two coordinates are as far apart
    "_cdist_forward": lambda: {"x1": _SQUARE, "x2": _SQUARE[::-1] + 3, "p": float("inf"), "compute_mode": None},
    "_pdist_forward": lambda: {"self": _SQUARE, "p": float("inf")},
    # Rows that occur once after one that occurs twice
    "_embedding_bag": lambda: {
        **{"weight": _SQUARE, "indices": _ROWS, "offsets": np.array([0, 2]), "scale_grad_by_freq": True, "mode": 0},
    },
    "embedding_dense_backward": lambda: {
        **{"grad_output": _x(4, 3).numpy(), "indices": _ROWS, "num_weights": 4, "padding_idx": -1},
        "scale_grad_by_freq": True,
    },
    # Equal entries, which no initial value replaces
    "segment_reduce": lambda: {"data": np.array([2.0, 2.0, 2.0, 1.0]), "reduce": "max", "lengths": np.array([3, 1])},
}


def _written(call: RecordedCall) -> Made:
    make = _WRITTEN.get(call.name.removeprefix("aten::"))
    if make is not None and not any(x.dtype.kind == "c" for x in _numbers(call).values()):
        yield "written out", make()
