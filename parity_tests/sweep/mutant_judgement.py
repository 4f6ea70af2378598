"""The lines of the sweep for an operator whose formulas have a planted mistake, one at a time.

A mistake is judged as PyTorch's own derivatives are, in first order, at the same calls; only that the derivative is the
text of the formula, evaluated. JAX's side of a call serves all mistakes, and a mistake is let go once it is found.
What PyTorch's formula itself says otherwise than JAX does not count: there the mistake is given JAX's number.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np
import torch

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.bound.base import relative
from parity_tests.sweep.calls import all_calls_of, calls_of
from parity_tests.sweep.cases import Arrays, Case, NoReference, Side, case_of
from parity_tests.sweep.compared_case import REFUSALS, Comparison, shortened
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, differing
from parity_tests.sweep.formula_mutants import planted
from parity_tests.sweep.formula_side import Formulas
from parity_tests.sweep.jax_own import own_function
from parity_tests.sweep.judgement import NoDerivative, cases_of, special_cases
from parity_tests.sweep.lines import Finding, Line, Verdict
from parity_tests.sweep.tallies import Tally, names_of
from torch_impl.derivatives import Entry, lookup

# How the reason of a line begins that finds nothing.
CHANGES_NOTHING = "changes no value"
STOPS = "stops with an error"  # and changes no value elsewhere
NOT_EVALUATED = "the formula cannot be evaluated"
NO_CALL = "no call reaches the formula"
SURVIVES = "changes a value"  # a place where the sweep looks
SURVIVES_ELSEWHERE = "changes a value where the sweep does not look"
_SMALL = "by less than may be rounding, or where PyTorch's formula is not JAX's as it stands"
_CONVICTIONS = (Verdict.WRONG_IN_PYTORCH, Verdict.WRONG_IN_BOTH)


def judge_mutants(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """Judge every planted mistake in the formulas of an entry.

    Args:
        operator: the entry's name, with its overload.
        modes: "vjp" and "jvp", or one of these.
        dtypes: "float64", "complex128".

    Returns:
        A line for each mistake, which is of its kind and text, "sign: self = -grad.conj()", in each dtype up to the
        first in which it is found: in which the verdict is that PyTorch is wrong. Otherwise the reason begins with
        one of the constants of this module.

    Raises:
        LookupError: PyTorch has no such entry.
    """
    began, entry = time.process_time(), lookup(operator)
    court = functools.cache(lambda dtype: _Court(entry, dtype))
    found: dict[tuple[str, str, str, str], Line] = {}
    with jax.enable_x64(True):
        for kind, formula, wrong in planted(entry):
            mode = "vjp" if wrong.vjps != entry.vjps else "jvp"
            for dtype in dtypes if mode in modes else ():
                of = f"{kind}: {', '.join(formula.names)} = {formula.text}"
                line = replace(court(dtype).judged(wrong, mode), of=of)
                found.setdefault(line.key, line)
                if is_conviction(line):
                    break
    seconds = (time.process_time() - began) / max(1, len(found))
    return [replace(line, seconds=round(seconds, 3)) for line in found.values()]


def is_conviction(line: Line) -> bool:
    """Return whether a line of `judge_mutants` says that PyTorch is wrong."""
    return line.verdict in _CONVICTIONS


class _Convicted(Exception):
    """Raised as soon as a witness says that PyTorch is wrong."""

    def __init__(self, verdict: Verdict, finding: Finding) -> None:
        super().__init__()
        self.verdict, self.finding = verdict, finding


class _UntilConvicted(Tally):
    """The tally of a mistake; it raises at the first verdict that PyTorch is wrong."""

    def found(self, verdict: Verdict, reason: str, finding: Callable[[], Finding]) -> None:
        """Note the verdict on a number.

        Raises:
            _Convicted: it is that PyTorch is wrong.
        """
        if verdict in _CONVICTIONS:
            raise _Convicted(verdict, finding())
        super().found(verdict, reason, finding)


@dataclass(eq=False)
class _Place:
    """A case where mistakes are judged.

    Attributes:
        formulas: the derivatives by formulas.
        right: what they say as they stand.
        jax: what JAX says.
        planted: what they say with a mistake.
    """

    case: Case
    formulas: Formulas
    right: Side
    jax: Side
    planted: Side

    @classmethod
    def of(cls, entry: Entry, case: Case, jax: Side) -> _Place:
        formulas = Formulas(case)
        right = _remembered(formulas.side(entry))
        return cls(case, formulas, right, jax, right)

    def pytorch(self, mode: str, arguments: Sequence[np.ndarray | torch.Tensor]) -> Arrays:
        """The numbers of the formulas with the mistake, where those without it agree with JAX's; JAX's elsewhere."""
        plain = [x.numpy() if isinstance(x, torch.Tensor) else x for x in arguments]
        others = zip(self.planted(mode, arguments), self.right(mode, plain), self.jax(mode, plain), strict=True)
        return [np.where(_differs(right, j), j, wrong) for wrong, right, j in others]

    def change(self, wrong: Entry, mode: str) -> str:
        """Return what a mistake does at ordinary cotangents or tangents: the beginning of a reason."""
        arguments = self.case.arguments(mode)
        try:
            right = self.right(mode, arguments)
        except REFUSALS:
            return NOT_EVALUATED
        try:
            found = self.formulas.side(wrong)(mode, arguments)
        except REFUSALS:
            return STOPS
        pairs = zip(found, right, strict=True)
        changes = any(differing(a, b, MOST_OF_THE_DIGITS, relative(FLOAT64)).any() for a, b in pairs)
        return SURVIVES if changes else CHANGES_NOTHING


class _Court:
    """The calls of an operator where mistakes are judged, each with JAX's side."""

    def __init__(self, entry: Entry, dtype: str) -> None:
        self._entry, self._dtype = entry, dtype
        self._calls = calls_of(entry.name, dtype)
        self._comparisons: list[tuple[_Place, Comparison]] = []
        self._source = self._made()
        self._refusal = ""  # why the sweep does not look at a call

    def judged(self, wrong: Entry, mode: str) -> Line:
        """The line of a mistake, without what it is of."""
        line = Line(self._entry.name, mode, "", self._dtype, Verdict.AGREES)
        names = names_of(self._entry, mode, self._calls)
        tallies: dict[tuple[str, str], Tally] = {(mode, name): _UntilConvicted() for name in names}
        effects = set()
        try:
            for place, comparison in self._every():
                effects.add(what := place.change(wrong, mode))
                if what == SURVIVES:
                    place.planted = place.formulas.side(wrong)
                    comparison.judge([mode], tallies)
        except _Convicted as it:
            return replace(line, verdict=it.verdict, finding=it.finding)
        if SURVIVES not in effects:
            return replace(line, reason=self._change_elsewhere(wrong, mode, effects))
        worst = max(tallies.values(), key=lambda tally: tally.verdict.rank)
        return replace(line, verdict=worst.verdict, reason=f"{SURVIVES}: {worst.reason or _SMALL}")

    def _every(self) -> Iterator[tuple[_Place, Comparison]]:
        """The comparisons, made when they are needed first."""
        for i in itertools.count():
            if i == len(self._comparisons):
                made = next(self._source, None)
                if made is None:
                    return
                self._comparisons.append(made)
            yield self._comparisons[i]

    def _made(self) -> Iterator[tuple[_Place, Comparison]]:
        try:
            cases = list(cases_of(self._entry, self._calls))
            own = own_function(cases)
            for number, case in enumerate(cases):
                try:
                    comparison = Comparison.of(case, case.in_pytorch, own(case))
                    comparison = replace(comparison, jax=_remembered(comparison.jax))
                    yield self._at(comparison, case)
                    for other in special_cases(case) if number == 0 else ():
                        yield self._at(comparison, other)
                except REFUSALS as error:
                    self._refusal = f"the reference refuses a call: {shortened(error)}"
        except (NoReference, NoDerivative) as reason:
            self._refusal = str(reason)

    def _at(self, comparison: Comparison, case: Case) -> tuple[_Place, Comparison]:
        place = _Place.of(self._entry, case, comparison.jax)
        return place, comparison.at(case, place.pytorch)

    def _change_elsewhere(self, wrong: Entry, mode: str, effects: set[str]) -> str:
        """Return the effect of a mistake at other calls than those of the sweep; `effects`: its effects at these."""
        for place in self._other_places:
            effects.add(place.change(wrong, mode))
            if SURVIVES in effects:
                return f"{SURVIVES_ELSEWHERE}: {self._refusal}" if self._refusal else SURVIVES_ELSEWHERE
        return next((what for what in (STOPS, CHANGES_NOTHING, NOT_EVALUATED) if what in effects), NO_CALL)

    @functools.cached_property
    def _other_places(self) -> list[_Place]:
        """All calls that there are, and special points of all calls that the sweep makes, of which it takes one's."""
        plain = [case_of(self._entry, call) for call in all_calls_of(self._entry.name, self._dtype)]
        chosen = [case_of(self._entry, call) for call in self._calls]
        special = [other for case in chosen if case is not None for other in special_cases(case)]
        return [_Place.of(self._entry, case, case.in_pytorch) for case in (*plain, *special) if case is not None]


def _differs(right: np.ndarray, other: np.ndarray) -> np.ndarray:
    return differing(right, other, HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS)


def _remembered(side: Side) -> Side:
    """The same side, which computes nothing twice."""
    known: dict[tuple, Arrays] = {}

    def remembered(mode: str, arguments: Sequence[np.ndarray]) -> Arrays:
        key = (mode, *((x.shape, x.dtype.str, x.tobytes()) for x in map(np.asarray, arguments)))
        if key not in known:
            known[key] = side(mode, arguments)
        return known[key]

    return remembered
