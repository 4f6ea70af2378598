"""Calls at special points, made from a recorded one: the points that PyTorch's own samples hardly ever have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity_tests.sweep.calls import arrays_of
from parity_tests.sweep.elementwise import is_elementwise, results_of
from parity_tests.sweep.recorded_calls import RecordedCall
from parity_tests.sweep.special_points import numbers_of, points

_LONGEST = 9  # of the vectors with NaN: one more than a vector register of eight lanes
_HUGE, _SMALL = 1e150, 1e-150
# Operators whose function JAX has does not end at numbers that are larger: docs/found.md, 63.
_WITHOUT_END = {"aten::igamma": 1e12, "aten::igammac": 1e12}


@dataclass(frozen=True, eq=False)
class SpecialCall(RecordedCall):
    """A call at special points; `why` says which they are."""

    why: str = ""


def special_calls(call: RecordedCall, moving: Sequence[str]) -> Iterator[SpecialCall]:
    """Yield calls like this one at special points, with PyTorch's results; where PyTorch refuses one, it is left out.

    Of an elementwise operator the inputs become vectors. Of others one input at a time is replaced, its shape as it is,
    and then axes are cut to one entry and to none, all those of the same length together.

    Args:
        call: of an operator that draws no random numbers.
        moving: the arguments that are differentiated, which are replaced: arrays or lists of arrays.
    """
    made = _of_vectors(call, moving) if is_elementwise(call, moving) else _of_its_shape(call, moving)
    for why, arguments in made:
        results = results_of(call.name, arguments)
        if results is not None:
            yield SpecialCall(call.name, arguments, results, call.source, why)


Made = Iterator[tuple[str, dict[str, Any]]]


def _of_vectors(call: RecordedCall, moving: Sequence[str]) -> Made:
    arrays = {name: call.arguments[name] for name in moving}
    is_complex = any(np.iscomplexobj(x) for x in arrays.values())
    kinks = numbers_of({key: value for key, value in call.arguments.items() if key not in moving})

    def given(columns: Sequence[Any]) -> dict[str, Any]:
        pairs = zip(arrays.items(), columns, strict=True)
        return {**call.arguments, **{name: _cast(column, x.dtype) for (name, x), column in pairs}}

    most = _WITHOUT_END.get(call.name, np.inf)
    special = [point for point in points(len(moving), is_complex, kinks) if max(map(abs, point)) <= most]
    yield "special numbers, and ties", given(list(zip(*special, strict=True)))
    ordinary = [np.resize(x, _LONGEST) for x in arrays.values()]
    for i, name in enumerate(moving):
        for infinity in (np.inf, -np.inf):
            yield f"{name} is {infinity}", given([[infinity] if j == i else x[:1] for j, x in enumerate(ordinary)])
    for i, name in enumerate(moving):
        for length in range(1, _LONGEST + 1):
            for first in (0, 1)[: min(length, 2)]:
                columns = [x[:length].copy() for x in ordinary]
                columns[i][first::2] = np.nan
                yield f"every second of {length} entries of {name} is NaN, from {first}", given(columns)


def _cast(column: Any, dtype: np.dtype) -> np.ndarray:
    """Numbers as an array of this dtype; of complex ones where it has none, the real parts."""
    array = np.asarray(column)
    return np.ascontiguousarray(np.real(array) if dtype.kind == "f" else array, dtype=dtype)


def _of_its_shape(call: RecordedCall, moving: Sequence[str]) -> Made:
    for name in moving:
        value = call.arguments[name]
        whole = value if isinstance(value, list) else [value]
        for i, x in enumerate(whole):
            if isinstance(x, np.ndarray) and x.dtype.kind in "fc" and x.size:
                of_list = f"{name}[{i}]" if isinstance(value, list) else name
                for why, y in _variants(x):
                    changed = [*whole[:i], y, *whole[i + 1 :]]
                    new = changed if isinstance(value, list) else y
                    yield f"{of_list}: {why}", {**call.arguments, name: new}
    yield from _cut(call, moving)


def _variants(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The array with special entries."""

    def put(where: slice | Sequence[int], what: Any, of: np.ndarray = x) -> np.ndarray:
        y = np.array(of, order="C")
        y.reshape(-1)[where] = what
        return y

    n, first = x.size, x.reshape(-1)[0]
    yield "one zero", put([n // 2], 0)
    yield "all zeros", np.zeros_like(x)
    yield "all equal", np.full_like(x, first)
    yield "one NaN, the first", put([0], np.nan)
    yield "an infinity", put([n // 2], np.inf)
    yield "one huge among small", put([n // 2], _HUGE, of=x * _SMALL)
    yield "all tiny", x * _SMALL
    if n > 1:
        yield "two zeros", put([0, n // 2], 0)
        yield "a zero and a negative zero", put([0, n // 2], [0.0, -0.0])
        yield "the first half equal", put(slice(n // 2 + 1), first)
        yield "one NaN, in the middle", put([n // 2], np.nan)
        yield "one NaN, the last", put([n - 1], np.nan)
    if x.ndim > 1:
        yield "a row of zeros", _with_row(x, 0)
        yield "two equal rows", _with_row(x, x[-1])
        yield "a column of zeros", np.moveaxis(_with_row(np.moveaxis(x, -1, 0), 0), 0, -1).copy()
    if x.ndim > 1 and x.shape[-1] == x.shape[-2]:
        yield "the identity", np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape).copy()
    if x.dtype.kind == "c":
        yield "real", np.real(x).astype(x.dtype)
        yield "imaginary", (1j * np.imag(x)).astype(x.dtype)
        yield "on the unit circle", np.divide(x, np.abs(x), out=np.ones_like(x), where=x != 0)


def _with_row(x: np.ndarray, row: Any) -> np.ndarray:
    y = np.array(x)
    y[0] = row
    return y


def _cut(call: RecordedCall, moving: Sequence[str]) -> Made:
    """The call where all axes of the same length have one entry, and none; no call that has indices into them.

    Nor one of a backward or an internal operator: these trust their callers to have checked the shapes, and where an
    axis is empty some divide by its length, which ends the process.
    """
    arrays = arrays_of(list(call.arguments.values()))
    if call.is_internal or any(x.dtype.kind in "iu" for x in arrays):
        return
    lengths = sorted({n for x in arrays_of([call.arguments[name] for name in moving]) for n in x.shape if n > 1})
    for length in lengths:
        for new in (1, 0):
            arguments = {name: _with_length(value, length, new) for name, value in call.arguments.items()}
            yield f"axes of length {length} have {new}", arguments


def _with_length(value: Any, length: int, new: int) -> Any:
    if isinstance(value, list):
        return [_with_length(each, length, new) if isinstance(each, np.ndarray) else each for each in value]
    if not isinstance(value, np.ndarray):
        return value
    return value[tuple(slice(new if n == length else None) for n in value.shape)].copy()
