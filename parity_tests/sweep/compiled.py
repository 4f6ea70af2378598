"""Operators as `torch.compile` compiles them: their values and gradients against JAX's.

A number counts if the compiled code has another one there than JAX and another one than PyTorch's operator as well:
where the compiled code and the operator agree, the other modes have judged it. So two implementations without a common
line stand against one, and where they differ a witness says who is right, as everywhere in the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.sweep.cases import Arrays, Case
from parity_tests.sweep.compared_case import REFUSALS, Comparison
from parity_tests.sweep.comparison import MOST_OF_THE_DIGITS, SOME_DIGITS, differing, floor_of, is_extreme
from parity_tests.sweep.compiled_code import Code, Compile, Unit, compiler, described, units
from parity_tests.sweep.jax_own import Own
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.tallies import Tally, plain

GENERATED = "code was generated"  # how the reason of a line begins
KERNELS_ONLY = "only PyTorch's kernels are called"
AS_EAGER = "as PyTorch without a compiler, which differs from JAX"
LOST = "digits are lost at ordinary numbers"
RAISES = "compiled, a call raises"
_DRAWS = "it draws random numbers, of which the compiled code has others"
_OF_COMPILED_CODE = "of the compiled code"
_AGREEING = "PyTorch without a compiler and JAX, which agree"


@dataclass(frozen=True, eq=False)
class CompiledComparison(Comparison):
    """A case with the compiled code as PyTorch's side.

    Attributes:
        notes: what else there is to say of a value or a gradient: its name, and a text.
    """

    notes: set[tuple[str, str]] = field(default_factory=set)

    def judge_values(self, tallies: Mapping[str, Tally]) -> None:
        """Compare the values with PyTorch's and with JAX's, and note what came of it; raises what the code raises."""
        inputs = list(self.case.inputs.values())
        found, of_jax = self.pytorch("forward", inputs), self.jax("forward", inputs)
        for index, (name, number) in enumerate(self.case.results.items()):
            tally = tallies.get(plain(name))
            if tally is not None:
                eager = self.case.call.results[number]
                tally.compared(self.case.call, bool((eager != 0).any()))
                self._compare_values(tally, plain(name), found[index], eager, of_jax[index])

    def _compare_values(self, tally: Tally, name: str, c: np.ndarray, e: np.ndarray, j: np.ndarray) -> None:
        """Compare the compiled code's values `c` with PyTorch's `e` and JAX's `j`, which are each other's witnesses."""
        if c.shape != e.shape or c.dtype != e.dtype:
            reason = f"the compiled code returns {c.dtype} of shape {c.shape}, not {e.dtype} of shape {e.shape}"
            tally.found(Verdict.WRONG_IN_PYTORCH, reason, lambda: self._of_value((), np.array(0), np.array(0)))
            return
        j = j if j.shape == e.shape else np.full_like(e, np.nan)
        # What neither of the others has, at ordinary inputs first, and what has not even a few digits of theirs
        off = self._off(c, e, MOST_OF_THE_DIGITS) & self._off(c, j, MOST_OF_THE_DIGITS)
        far = off & self._off(c, e, SOME_DIGITS) & self._off(c, j, SOME_DIGITS)
        inputs = list(self.case.inputs.values())
        extreme = np.any([is_extreme(x) if self.entrywise else is_extreme(x).any() for x in inputs], axis=0)
        extreme = np.broadcast_to(extreme, off.shape)
        for where, digits, verdict in (
            (far & ~extreme, SOME_DIGITS, Verdict.WRONG_IN_PYTORCH),
            (off & ~far & ~extreme, MOST_OF_THE_DIGITS, Verdict.LOSES_DIGITS),
            (far & extreme, SOME_DIGITS, Verdict.OVERFLOWS),
        ):
            trusted = where & ~self._off(e, j, digits)
            if where.any() and (trusted.any() or verdict is Verdict.WRONG_IN_PYTORCH):
                chosen = trusted if trusted.any() else where
                place = tuple(int(i) for i in np.unravel_index(int(np.argmax(chosen)), c.shape))
                told = verdict if trusted.any() else Verdict.UNDECIDED
                if told is Verdict.LOSES_DIGITS:  # a verdict on extreme numbers would hide it
                    self.notes.add((name, LOST))
                tally.found(told, _OF_COMPILED_CODE, lambda at=place: self._of_value(at, c[at], e[at]))

    def _off(self, x: np.ndarray, y: np.ndarray, digits: float) -> np.ndarray:
        """Where two values have fewer digits than these in common."""
        if self.entrywise:
            return differing(x, y, digits, 0.0, floor_of(list(self.case.inputs.values())))
        return differing(x, y, digits, digits)

    def _of_value(self, place: tuple[int, ...], found: Any, right: Any) -> Finding:
        point = in_short(self.case, "forward", list(self.case.inputs.values()))
        expected = repr(right.item())
        return Finding(point, place, f"{found.item()!r} compiled", expected, expected, _AGREEING)

    def _in_question(
        self, mode: str, arguments: Arrays, index: int, p: np.ndarray, j: np.ndarray, level: np.ndarray
    ) -> np.ndarray:
        """Where the compiled code has another number than JAX, and than PyTorch's operator."""
        differs = self._differing(mode, p, j, level)
        if not differs.any():
            return differs
        eager = self.case.in_pytorch(mode, arguments)[index]
        own = differing(p, eager, MOST_OF_THE_DIGITS, 0.0 if self.entrywise else MOST_OF_THE_DIGITS)
        if (differs & ~own & self.usable).any():
            self.notes.add((plain(self.case.labels(mode)[index]), AS_EAGER))
        return differs & own

    def _decided(
        self,
        mode: str,
        arguments: Arrays,
        index: int,
        place: tuple[int, ...],
        p: np.ndarray,
        j: np.ndarray,
        level: np.ndarray,
    ) -> tuple[Verdict, str, Callable[[], Finding]]:
        """The verdict on a number of the compiled code; what is also PyTorch's without a compiler is none on it."""
        found = super()._decided(mode, arguments, index, place, p, j, level)
        if found[0] not in (Verdict.AGREES, Verdict.CONVENTION):
            eager = self.case.in_pytorch(mode, arguments)[index]
            if super()._decided(mode, arguments, index, place, eager, j, level)[0] is found[0]:
                self.notes.add((plain(self.case.labels(mode)[index]), AS_EAGER))
                return Verdict.AGREES, "", found[2]
        return found

    def _finding(
        self, mode: str, arguments: Arrays, index: int, place: tuple[int, ...], p: Any, j: Any, slopes: Slopes | None
    ) -> Finding:
        found = super()._finding(mode, arguments, index, place, p, j, slopes)
        case = self._single if self.entrywise else self.case
        eager = case.in_pytorch(mode, arguments)[index][place]
        return replace(
            found, pytorch=f"{found.pytorch} compiled, {eager.item()!r} without", repro=_compiled(found.repro)
        )


def _compiled(script: str) -> str:
    """A script that prints a number of a gradient, by the compiled function."""
    given = "x = tuple(each.requires_grad_() for each in x)\nf = torch.compile(f, fullgraph=True)\n"
    gradients = "torch.autograd.grad([y for y in f(*x) if y.requires_grad], x, w, allow_unused=True)"
    return script.replace("found = torch.func.vjp(f, *x)[1](w)", f"{given}found = {gradients}")


def judge_compiled(
    cases: Sequence[Case],
    special: Callable[[Case], Iterator[Case]],
    own: Own,
    tallies: Mapping[str, Tally],
    compile: Compile = torch.compile,
) -> None:
    """Compare the values and gradients of compiled code with JAX's, and note what came of each.

    Args:
        cases: of one entry, of which a few are compiled.
        special: a case at special points.
        own: JAX's own function of a case, if there is one.
        tallies: by the names of inputs, for their gradients, and of results.
        compile: as `torch.compile`.
    """
    drawn, cases = bool(cases), [case for case in cases if not case.may_draw]
    notes: dict[str, set[str]] = {name: set() for name in tallies}
    for unit in units(cases, special) if cases else ():
        with compiler():
            try:
                _judge_unit(unit, own, tallies, notes, compile)
            except REFUSALS as error:
                for tally in tallies.values():
                    tally.refused(described(error))
    for name, tally in tallies.items():
        if drawn and not cases:
            tally.refused(_DRAWS)
        if tally.verdict is not Verdict.UNREACHED:
            kinds = [text for text in (GENERATED, KERNELS_ONLY) if text in notes[name]][:1]
            others = sorted(notes[name] - {GENERATED, KERNELS_ONLY})
            about = [*kinds, tally.verdict_reason, *others]
            tally.verdict_reason = "; ".join(filter(None, about))


def _judge_unit(
    unit: Unit, own: Own, tallies: Mapping[str, Tally], notes: Mapping[str, set[str]], compile: Compile
) -> None:
    code = Code(unit.heads, unit.dynamic, compile)
    if len(unit.heads) > 1 and not code.works():
        for each in unit.split():
            with compiler():
                _judge_unit(each, own, tallies, notes, compile)
        return
    found = set[tuple[str, str]]()
    for number, head in enumerate(unit.heads):
        whole = CompiledComparison.of(head, code.side(head, number), own(head))
        for case in (head, *unit.points.get(number, ())):
            comparison = whole if case is head else whole.at(case, code.side(case, number))
            _judge_case(replace(comparison, notes=found), tallies)
            if "vjp" not in code.generated:  # it would be compiled again for each case, and fail again
                break
    _note(unit, code, found, notes)


def _judge_case(comparison: CompiledComparison, tallies: Mapping[str, Tally]) -> None:
    case = comparison.case
    try:
        comparison.judge_values(tallies)
    except REFUSALS as error:
        for name in {*map(plain, case.results)} & {*tallies}:
            tallies[name].refused(described(error))
    inputs = {*map(plain, case.inputs)}
    comparison.judge(["vjp"], {("vjp", name): tally for name, tally in tallies.items() if name in inputs})


def _note(unit: Unit, code: Code, found: set[tuple[str, str]], notes: Mapping[str, set[str]]) -> None:
    for name, text in found:
        if name in notes:
            notes[name].add(text)
    first = unit.heads[0]
    for mode, names in (("forward", first.results), ("vjp", first.inputs)):
        for name in {*map(plain, names)} & {*notes}:
            if mode in code.generated and not unit.dynamic:  # for all sizes both are compiled at once
                notes[name].add(GENERATED if code.generated[mode] else KERNELS_ONLY)
            notes[name].update(f"{RAISES} {error}" for error in code.errors[:1])
