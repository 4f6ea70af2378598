"""PyTorch's derivatives in float32 and bfloat16 against those in float64, with an error that rounding can explain.

The inputs, cotangents and tangents are numbers of the format, and the reference is JAX's derivative of them in float64,
where PyTorch's in float64 agrees with it. Three errors are told apart:

* What the problem explains: the bound of the rounding errors of the reference's program in the format, if each of its
  operations has a rule (`parity_tests.harness.rounding`), and how far the reference moves if each input moves by a
  rounding or two.
* What PyTorch's formula explains beside that: how far PyTorch's derivative in float64 moves if every operation that it
  calls rounds at random (`random_rounding`). What is more than the problem explains is a loss of digits.
* What is more than both is no rounding: if a third of the digits is right, they are lost; else the number is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from parity_tests.harness.numbers.formats import FORMATS, Precision
from parity_tests.harness.trial.digits import TIMES
from parity_tests.sweep.cases import Arrays, Case, Side, case_of
from parity_tests.sweep.compared_case import REFUSALS, shortened
from parity_tests.sweep.comparison import DIGITS_OF_A_NUMBER, HALF_OF_THE_DIGITS, differing
from parity_tests.sweep.elementwise import results_of
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.random_rounding import RandomRounding
from parity_tests.sweep.recorded_calls import as_torch
from parity_tests.sweep.rounding import DRAWS, ROOM, explained
from parity_tests.sweep.tallies import Tally, plain

_WITNESS = "both frameworks in float64"

InFormat = Callable[[Case, torch.dtype], Callable[..., tuple[torch.Tensor, ...]]]


def in_format(case: Case, dtype: torch.dtype) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return the operator in a format as a function of tensors of float64, which returns such tensors."""
    arguments = {key: _as_format(value, dtype) for key, value in case.call.arguments.items()}
    operator = replace(case, call=replace(case.call, arguments=arguments)).torch_function()

    def function(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = operator(*(x.to(dtype) for x in inputs))
        return tuple(y.to(torch.complex128 if y.is_complex() else torch.float64) for y in found)

    return function


def _as_format(value: Any, dtype: torch.dtype) -> Any:
    """A value of a call whose tensors of float64, and whose dtypes that are this one, are of the format."""
    if isinstance(value, list):
        return [_as_format(each, dtype) for each in value]
    if isinstance(value, np.dtype):
        return dtype if value == np.float64 else value
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return as_torch(value).to(dtype)
    return value


def rounded_case(case: Case, format: Precision) -> Case | None:
    """Return the case at numbers of the format; None if PyTorch refuses it there."""

    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(each) for each in value]
        is_rounded = isinstance(value, np.ndarray) and value.dtype.kind in "fc"
        return format.rounded(value) if is_rounded else value

    with np.errstate(over="ignore"):
        arguments = {key: rounded(value) for key, value in case.call.arguments.items()}
    results = results_of(case.call.name, arguments)
    return None if results is None else case_of(case.entry, replace(case.call, arguments=arguments, results=results))


class LowPrecision:
    """A case at numbers of a format, with what is known of its derivatives.

    Args:
        case: of float64, whose numbers are those of the format: see `rounded_case`.
        jax: the reference's maps, in float64.
        function: the reference.
        format: "float32" or "bfloat16".
        operator: PyTorch's operator in the format; by default its own.
    """

    def __init__(
        self, case: Case, jax: Side, function: Callable[..., Any], format: str, operator: InFormat = in_format
    ) -> None:
        self.case, self.jax, self.function, self.format = case, jax, function, FORMATS[format]
        self.dtype: torch.dtype = getattr(torch, format)
        self.operator = operator(case, self.dtype)

    def judge(self, mode: str, tallies: Mapping[str, Tally]) -> None:
        """Judge a mode, and note what came of each derivative; raises what PyTorch and the reference refuse with."""
        arguments = [self.format.rounded(x) for x in self.case.arguments(mode)]
        right, double = self.jax(mode, arguments), self.case.in_pytorch(mode, arguments)
        found = self.case.by_function(self.operator, mode, arguments)
        usable = self._where_inputs_are_ordinary(mode, arguments)
        labels = self.case.labels(mode)
        every = list(zip(labels, found, right, double, strict=True))
        for index, (label, p, j, d) in enumerate(every):
            tally = tallies.get(plain(label))
            if tally is None:
                continue
            level = float(np.abs(np.where(np.isfinite(j), j, 0)).max(initial=0))
            fits = np.isfinite(j) & (np.abs(j) < self.format.largest / 4) & usable
            fits = fits & ~differing(d, j, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS)
            if not fits.any():
                tally.refused("the frameworks differ in float64, or the dtype does not hold the numbers")
                continue
            tally.compared(self.case.call, bool((p != 0).any()))
            few = TIMES * (self.format.u * np.abs(j) + self.format.tiny)
            with np.errstate(invalid="ignore"):
                off = np.abs(p - j)
            if (fits & ~(off <= few)).any():
                self._explain(tally, mode, arguments, index, (p, j), fits, few, level)

    def _where_inputs_are_ordinary(self, mode: str, arguments: Arrays) -> np.ndarray:
        """Where squares of the inputs neither overflow nor vanish in the format: of all, or entry by entry."""
        limit = math.sqrt(self.format.largest) / 4
        where = [(x == 0) | ((np.abs(x) < limit) & (np.abs(x) > 1 / limit)) for x in arguments]
        if self.case.entrywise:
            return np.all(where, axis=0)
        return np.asarray(all(w.all() for w in where))

    def _explain(
        self,
        tally: Tally,
        mode: str,
        arguments: Arrays,
        index: int,
        numbers: tuple[np.ndarray, np.ndarray],
        fits: np.ndarray,
        few: np.ndarray,
        level: float,
    ) -> None:
        p, j = numbers
        problem = few + explained(self.case, self.jax, self.function, mode, arguments, index, self.format)
        formula = problem + ROOM * self._of_the_formula(mode, arguments, index, j)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            off = np.where(np.isfinite(p), np.abs(p - j), np.inf)
            bad = fits & ~(off <= problem)
            if not bad.any():
                return
            size = np.abs(j) if self.case.entrywise else np.full(j.shape, level)
            digits = np.where(off > 0, -np.log2(off / size), math.inf)
            right = digits >= DIGITS_OF_A_NUMBER * -math.log2(self.format.u)
            excess = np.where(np.isfinite(off) | ~np.isfinite(formula), off / (formula + few), np.inf)
        wrong = bad & ~(off <= formula) & ~right & ~np.isnan(formula)
        most = int(np.argmax(np.where(wrong if wrong.any() else bad, excess, -1)))
        place = tuple(int(i) for i in np.unravel_index(most, j.shape))
        verdict, reason = Verdict.WRONG_IN_PYTORCH, "rounding cannot explain it"
        if not wrong[place]:
            verdict, reason = (
                Verdict.LOSES_DIGITS,
                self._digits(off[place], j[place], bool(off[place] <= formula[place])),
            )
            if not np.isfinite(p[place]):
                verdict, reason = Verdict.OVERFLOWS, "a number within its formula overflows"
        tally.found(verdict, reason, lambda: self._finding(mode, arguments, place, p[place], j[place], problem[place]))

    def _digits(self, off: float, right: Any, by_formula: bool) -> str:
        """How many digits of its own a number has, and why not all of them."""
        have = max(0, math.floor(-math.log10(off / abs(right)))) if right and math.isfinite(off) else 0
        whole = math.floor((1 - math.log2(self.format.u)) * math.log10(2))
        why = "its formula rounds so" if by_formula else "more than its formula explains"
        return f"PyTorch has {have} of {whole} digits: {why}"

    def _of_the_formula(self, mode: str, arguments: Arrays, index: int, right: np.ndarray) -> np.ndarray:
        """Return how far PyTorch's derivative moves if its operations round at random; NaN if it is not finite."""
        moved = np.zeros(right.shape)
        for seed in range(DRAWS):
            with RandomRounding(self.dtype, self.format.u, seed):
                found = self.case.in_pytorch(mode, arguments)[index]
            moved = np.maximum(moved, np.where(np.isfinite(found), np.abs(found - right), np.nan))
        return moved

    def _finding(self, mode: str, arguments: Arrays, place: tuple[int, ...], p: Any, j: Any, allowed: Any) -> Finding:
        return Finding(
            point=in_short(self.case, mode, arguments),
            place=place,
            pytorch=repr(p.item()),
            jax=repr(j.item()),
            right=f"{j.item()!r}, within {float(allowed):.2g}",
            witness=_WITNESS,
        )


def judge_in_format(
    cases: Sequence[Case],
    function_of: Callable[[Case], Callable[..., Any]],
    format: str,
    modes: Sequence[str],
    tallies: Mapping[tuple[str, str], Tally],
    operator: InFormat = in_format,
) -> None:
    """Judge derivatives in a format at cases of float64, and note what came of them.

    Args:
        cases: they are judged at the nearest numbers of the format.
        function_of: the reference of a case, in JAX.
        format, operator: see `LowPrecision`.
        modes: of `lines.MODES`.
        tallies: by mode and name.
    """
    for case in cases:
        rounded = rounded_case(case, FORMATS[format])
        if rounded is None or rounded.may_draw:
            continue
        function = function_of(rounded)
        low = LowPrecision(rounded, rounded.in_jax(function), function, format, operator)
        for mode in modes:
            of_mode = {name: tally for (which, name), tally in tallies.items() if which == mode}
            try:
                low.judge(mode, of_mode)
            except REFUSALS as error:
                for tally in of_mode.values():
                    tally.refused(shortened(error))
