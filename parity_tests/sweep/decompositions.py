"""PyTorch's decompositions of the operators that a backward calls, in float64, against these operators.

A compiler runs the decomposition (`torch._decomp`) in place of the operator: both are PyTorch's, and have to agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from jax_ref import aten
from parity_tests.sweep.calls import arrays_of
from parity_tests.sweep.cases import Case
from parity_tests.sweep.compared_case import REFUSALS, shortened
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, differing, is_extreme
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import written
from parity_tests.sweep.recorded_calls import RecordedCall, as_jax, as_torch, calls_made_by, differentiate
from parity_tests.sweep.tallies import Tally

NONE = "its backward calls no operator that PyTorch decomposes"
_NEARBY = 4  # points at which both are asked where they differ
_STEP = 2.0**-20  # relative: how far these are; no tolerance
_REFUSALS = (*REFUSALS, AssertionError)

Table = Mapping[Any, Callable[..., Any]]


def decompositions() -> Table:
    """Return PyTorch's decompositions, by operator."""
    from torch._decomp import decomposition_table  # takes a second

    return decomposition_table


def judge_decompositions(cases: Sequence[Case], table: Table) -> dict[str, Tally]:
    """Compare the decompositions of the backward operators that cases call.

    Args:
        cases: of one entry; if it is a backward operator itself, it is compared, too.
        table: the decompositions, by operator.

    Returns:
        What came of each operator, by its name with its overload, without "aten::".
    """
    named = {_name(op): op for op in table if isinstance(op, torch._ops.OpOverload) and "backward" in op._schema.name}
    tallies: dict[str, Tally] = {}
    for case in cases:
        for call in _calls(case, named):
            tally = tallies.setdefault(call.name.removeprefix("aten::"), Tally())
            try:
                _compare(tally, call, named[call.name], table[named[call.name]])
            except _REFUSALS as error:
                tally.refused(shortened(error))
    return tallies


def _name(operator: Any) -> str:
    overload = operator._schema.overload_name
    return f"{operator._schema.name}.{overload}" if overload else operator._schema.name


def _calls(case: Case, named: Mapping[str, Any]) -> Iterator[RecordedCall]:
    """The calls of these operators that a case makes when it is differentiated; its own, if it is one."""
    if case.call.name in named:
        yield case.call
        return
    inputs = [as_torch(x).requires_grad_() for x in case.inputs.values()]
    function = case.torch_function()
    with contextlib.suppress(*_REFUSALS):  # of an operator without a derivative; what ran before is kept
        yield from calls_made_by(lambda: differentiate(function(*inputs), inputs, 1), named, case.call.source)


def _compare(tally: Tally, call: RecordedCall, operator: Any, decomposition: Callable[..., Any]) -> None:
    found = _results(operator, decomposition, call.arguments)
    right = [y for y in call.results if isinstance(y, np.ndarray)]
    if len(found) != len(right):
        tally.refused("the decomposition leaves out a result, or has one more")
        return
    pairs = [(a, b) for a, b in zip(found, right, strict=True) if b.dtype.kind in "fc"]
    tally.compared(call, any((b != 0).any() for _, b in pairs))
    for number, (a, b) in enumerate(pairs):
        if a.shape != b.shape or a.dtype != b.dtype:
            what = f"the decomposition returns {a.dtype} of shape {a.shape}, the operator {b.dtype} of shape {b.shape}"
            tally.found(Verdict.WRONG_IN_PYTORCH, what, lambda: _finding(call, (), np.array(0), np.array(0), ""))
            continue
        off = differing(a, b, MOST_OF_THE_DIGITS, MOST_OF_THE_DIGITS)
        if off.any():
            far = differing(a, b, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS)
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(far if far.any() else off)), a.shape))
            verdict, reason, witness = _decided(call, operator, decomposition, number, place, (a, b))
            tally.found(verdict, reason, lambda p=place, x=a, y=b, w=witness: _finding(call, p, x[p], y[p], w))


def _results(operator: Any, function: Callable[..., Any], arguments: Mapping[str, Any]) -> list[np.ndarray]:
    """The results of a function that has an operator's arguments, by place where the schema lets them be."""
    given = {key: as_torch(value) for key, value in arguments.items()}
    by_place = []
    for argument in operator._schema.arguments:
        if argument.kwarg_only or argument.name not in given:
            break
        by_place.append(given.pop(argument.name))
    with torch.no_grad():
        found = function(*by_place, **given)
    return [y.resolve_conj().resolve_neg().numpy() for y in tree_leaves(found) if isinstance(y, torch.Tensor)]


def _decided(
    call: RecordedCall,
    operator: Any,
    decomposition: Callable[..., Any],
    number: int,
    place: tuple[int, ...],
    results: tuple[np.ndarray, np.ndarray],
) -> tuple[Verdict, str, str]:
    """The verdict on a number in which a decomposition and its operator differ, the reason, and the witness."""
    given = [x for x in arrays_of(list(call.arguments.values())) if x.dtype.kind in "fc"]
    if not all(np.isfinite(x).all() for x in given):
        return Verdict.CONVENTION, "an input is not finite", ""
    ours, theirs = (y[place] for y in results)
    far = differing(*results, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS)[place]
    if (
        far
        and np.isfinite(ours)
        and np.isfinite(theirs)
        and _agree_nearby(call, operator, decomposition, number, place)
    ):
        return Verdict.CONVENTION, "the decomposition and the operator agree nearby", "both at points nearby"
    right = _reference(call, number, place)
    if right is None:
        verdict = Verdict.UNDECIDED if far else Verdict.LOSES_DIGITS
        return verdict, "the decomposition and the operator differ, and there is no reference", ""
    digits = HALF_OF_THE_DIGITS if far else MOST_OF_THE_DIGITS
    off = [bool(differing(np.asarray(y), np.asarray(right), digits, 0.0)) for y in (ours, theirs)]
    if off[0] == off[1]:
        return Verdict.UNDECIDED if far else Verdict.LOSES_DIGITS, "the decomposition and the operator differ", ""
    verdict = Verdict.WRONG_IN_PYTORCH if far else Verdict.LOSES_DIGITS
    if far and any(is_extreme(x).any() for x in given):
        verdict = Verdict.OVERFLOWS
    return verdict, "of the decomposition" if off[0] else "of the operator", f"jax_ref.aten: {right!r}"


def _agree_nearby(
    call: RecordedCall, operator: Any, decomposition: Callable[..., Any], number: int, place: tuple[int, ...]
) -> bool:
    rng = np.random.default_rng(0)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(each) for each in value]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
            return value
        size = float(np.abs(value).max(initial=0)) or 1.0
        return np.asarray(value + _STEP * size * rng.standard_normal(value.shape))

    for _ in range(_NEARBY):
        arguments = {key: moved(value) for key, value in call.arguments.items()}
        a, b = (_results(operator, f, arguments) for f in (decomposition, operator))
        a, b = ([y for y in each if y.dtype.kind in "fc"][number] for each in (a, b))
        if differing(a, b, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS)[place]:
            return False
    return True


def _reference(call: RecordedCall, number: int, place: tuple[int, ...]) -> Any:
    """Return the number that the reference in JAX has at a place; None if there is no reference, or it refuses."""
    for name in (call.name, call.name.partition(".")[0]):
        if name in aten.OPERATORS:
            with contextlib.suppress(*_REFUSALS):
                found = aten.OPERATORS[name](**{key: as_jax(value) for key, value in call.arguments.items()})
                every = [np.asarray(y) for y in tree_leaves(found) if y is not None]
                return [y for y in every if y.dtype.kind in "fc"][number][place].item()
    return None


def _finding(call: RecordedCall, place: tuple[int, ...], ours: Any, theirs: Any, witness: str) -> Finding:
    given = {key: value for key, value in call.arguments.items() if value is not None}
    point = "; ".join(f"{k} = {written(v) if isinstance(v, np.ndarray) else v}" for k, v in given.items())
    return Finding(
        point=point,
        place=place,
        pytorch=f"{ours.item()!r} by the decomposition, {theirs.item()!r} by the operator",
        jax=witness,
        right=witness.rpartition(": ")[2],
        witness=witness,
    )
