"""The calls at which an entry of derivatives.yaml is judged: of PyTorch's own samples, and of our own."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from parity_tests.sweep.all_own_calls import all_own_calls as own
from parity_tests.sweep.kept_calls import KeptCalls
from parity_tests.sweep.opinfo_operators import operators_of
from parity_tests.sweep.recorded_calls import RecordedCall, opinfo_dtypes, opinfo_names, recorded_calls
from torch_impl.derivatives import entries

DTYPES = ("float64", "complex128")
MOST = 8  # calls of an operator, and one more for each kind of special numbers
_LARGEST = 20_000  # entries of all tensors of a call
_SMALL = 1_000  # where an operator has such calls, larger ones are left out
_SAMPLES = 40  # of an OpInfo and dtype
_SHORTEST = 3  # letters of a name that is looked for within another


def calls_of(operator: str, dtype: str) -> Sequence[RecordedCall]:
    """Return calls of an operator with different shapes and options, about eight.

    They come from the OpInfos whose names resemble the operator's and from calls of our own and, where there are none,
    from all other OpInfos. Of these, those whose samples call the operator are recorded, if they are not kept from
    before. With a version of PyTorch that `opinfo_operators.py` does not know, all of them are, which takes minutes.

    Args:
        operator: with its overload, as derivatives.yaml names it: "sum.dim_IntList".
        dtype: "float64", or "complex128" for calls with an array of that dtype.
    """
    return select(_small(all_calls_of(operator, dtype)), MOST)


def all_calls_of(operator: str, dtype: str) -> Sequence[RecordedCall]:
    """Return the calls from which `calls_of` chooses."""
    if dtype not in DTYPES:
        raise ValueError(f"{dtype} is none of {', '.join(DTYPES)}")
    name = f"aten::{operator}"
    alike, others = _by_resemblance(operator)
    direct, backward = ([call for call in of if call.name == name and _is_of(call, dtype)] for of in own(wanted()))
    return [*_recorded(name, dtype, alike), *direct] or [*_recorded(name, dtype, others)] or backward


def _recorded(name: str, dtype: str, opinfos: Iterable[str]) -> Iterator[RecordedCall]:
    for opinfo in opinfos:
        if name in _names_of(opinfo, dtype):
            yield from (call for call in record_opinfo(opinfo, dtype) if call.name == name and _is_of(call, dtype))


@functools.cache
def wanted() -> frozenset[str]:
    """The operators that are looked for: all with a formula of the default key, and their in-place variants."""
    names = [entry.name.partition(".") for entry in entries() if entry.key == "Default" and entry.vjps]
    in_place = {f"aten::{packet}_{dot}{overload}" for packet, dot, overload in names}
    return frozenset(in_place | {f"aten::{''.join(name)}" for name in names})


def units() -> list[tuple[str, str]]:
    """Return all recordings that can be made, in independent pieces: the arguments of `record_opinfo`."""
    return [(name, dtype) for name in opinfo_names() for dtype in DTYPES if dtype in opinfo_dtypes(name)]


def record_opinfo(name: str, dtype: str) -> Sequence[RecordedCall]:
    """Return the calls that the samples of an OpInfo make when they are differentiated twice; as kept, if they are."""
    kept = KeptCalls(wanted())
    unit = f"{name}-{dtype}"
    found = kept.read(unit)
    if found is None:
        every = recorded_calls(wanted(), {name}, [getattr(torch, dtype)], 2, _SAMPLES, _LARGEST)
        of_each: dict[str, list[RecordedCall]] = {}
        for call in every:
            of_each.setdefault(call.name, []).append(call)
        found = [call for calls in of_each.values() for call in select(_small(calls), MOST)]
        kept.write(unit, found)
    return found


@functools.cache
def _names_of(opinfo: str, dtype: str) -> frozenset[str]:
    """The operators that an OpInfo's samples call."""
    if dtype not in opinfo_dtypes(opinfo):
        return frozenset()
    names = operators_of(opinfo, dtype)
    if names is None:
        names = KeptCalls(wanted()).names(f"{opinfo}-{dtype}")
    return frozenset(call.name for call in record_opinfo(opinfo, dtype)) if names is None else names


def _by_resemblance(operator: str) -> tuple[list[str], list[str]]:
    """The OpInfos whose names resemble the operator's, those of the same name first; and the others."""
    plain = operator.partition(".")[0].strip("_")
    by_name = {name: re.sub(r"\W", "_", name) for name in opinfo_names()}
    same = [name for name in by_name if plain in (by_name[name], name.rpartition(".")[2])]
    alike = [
        name
        for name, text in by_name.items()
        if name not in same
        and ((len(plain) >= _SHORTEST and plain in text) or _is_part(name.rpartition(".")[2].strip("_"), plain))
    ]
    return [*same, *alike], [name for name in by_name if name not in same and name not in alike]


def _is_part(short: str, long: str) -> bool:
    return len(short) >= _SHORTEST and short in long


def _small(calls: Sequence[RecordedCall]) -> Sequence[RecordedCall]:
    small = [call for call in calls if sum(x.size for x in arrays_of(list(call.arguments.values()))) <= _SMALL]
    return small or calls


def _is_of(call: RecordedCall, dtype: str) -> bool:
    """Whether a call's arguments are of this dtype: of both kinds of numbers, the complex ones count."""
    kinds = {x.dtype.name for x in arrays_of(list(call.arguments.values()))}
    return dtype in kinds and (dtype == "complex128" or "complex128" not in kinds)


def arrays_of(value: Any) -> list[np.ndarray]:
    """The arrays of a value, in order."""
    if isinstance(value, list | tuple):
        return [x for each in value for x in arrays_of(each)]
    return [value] if isinstance(value, np.ndarray) else []


def select(calls: Sequence[RecordedCall], most: int) -> list[RecordedCall]:
    """At most so many calls with different options and shapes, and one more for each kind of special numbers.

    Those with other options come first, then those with other shapes, then those with other kinds of special numbers;
    those on tensors without entries, of which one is enough, last. Those whose results are finite come before others.
    """
    distinct: dict[Any, RecordedCall] = {}
    for call in sorted(calls, key=lambda call: not _is_finite(call)):
        distinct.setdefault((call.signature, _special(call)), call)
    whole = [call for call in distinct.values() if not _is_empty(call)]
    empty = [call for call in distinct.values() if _is_empty(call)]
    rounds: Counter[Any] = Counter()
    ranked = []
    for call in whole:
        options = tuple(repr(value) for value in call.arguments.values() if not arrays_of(value))
        ranked.append(((rounds[options], rounds[call.signature]), call))
        rounds.update([options, call.signature])
    ranked.sort(key=lambda pair: pair[0])
    chosen = [call for _, call in ranked]
    few, rest = [*chosen, *empty[:1]][:most], chosen[most:]
    for call in rest:
        if not _special(call) <= frozenset().union(*map(_special, few)):
            few.append(call)
    return few


def _is_finite(call: RecordedCall) -> bool:
    """Whether all results are finite, which those of negative numbers are not for some operators."""
    return all(bool(np.isfinite(y).all()) for y in arrays_of(list(call.results)) if y.dtype.kind in "fc")


def _is_empty(call: RecordedCall) -> bool:
    return any(not x.size for x in arrays_of(list(call.arguments.values())) if x.dtype.kind in "fc")


@np.errstate(invalid="ignore")  # a signalling NaN in such memory
def _special(call: RecordedCall) -> frozenset[str]:
    """The kinds of special numbers among the entries of the inputs, some of which may be memory nobody wrote to."""
    found = set()
    arrays = [x for x in arrays_of(list(call.arguments.values())) if x.dtype.kind in "fc" and x.size]
    for x in arrays:
        found |= {"zero"} if (x == 0).any() else set()
        found |= {"infinity"} if np.isinf(x).any() else set()
        found |= {"NaN"} if np.isnan(x).any() else set()
        found |= {"ties"} if np.unique(x[np.isfinite(x)]).size < np.isfinite(x).sum() else set()
    shapes = [x.shape for x in arrays]
    equal = any((x == y).any() for i, x in enumerate(arrays) for y in arrays[:i] if shapes[i] == y.shape)
    return frozenset(found | ({"equal"} if equal else set()))
