"""PyTorch's derivatives of a case compared with JAX's, number by number; witnesses decide where they differ."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from jax.extend import core

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.extended.slopes import Slopes
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.formats import COMPLEX128, FLOAT64
from parity_tests.sweep.cases import Arrays, Case, Side
from parity_tests.sweep.comparison import (
    HALF_OF_THE_DIGITS,
    MOST_OF_THE_DIGITS,
    accused_by_both,
    asked,
    decided,
    differing,
    differing_values,
    floor_of,
    is_below_rounding,
    is_extreme,
    is_up_to_the_processor,
    largest_of,
)
from parity_tests.sweep.cotangents import COTANGENTS
from parity_tests.sweep.holomorphic import holomorphic_slopes
from parity_tests.sweep.kinks import all_together, has_kink, is_limit
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.repro import repro
from parity_tests.sweep.rounding import explained
from parity_tests.sweep.tallies import Tally, plain
from parity_tests.sweep.witnesses import Path, exactly, paths, slopes_by, traced

At = tuple[Arrays, int, tuple[int, ...]]  # the arguments, the number of a result, and a place in it
Ruling = tuple[Slopes, Verdict, str]
REFUSALS = (Refused, RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
_FIRST_ORDER = ("vjp", "jvp")
_NOT_THE_SAME = "the slopes of PyTorch's values are not those of JAX's"
_OF_THE_REFERENCE = "JAX's is of the reference, jax_ref.aten"
_OF_VALUES = "differences of PyTorch's values and of JAX's"
_OF_A_SUM = "by the sum of its entries: the function is smooth where all inputs move together"
_MOST_WITNESSED = 6  # numbers of a result of which witnesses are asked
_MOST_WITNESSED_ENTRYWISE = 24
_AWAY = 2.0**-4  # how far along a path the first derivatives are compared; no tolerance
_ROUNDING = 2 * FLOAT64.u  # relative: of an input, to the next number
_UNEQUAL = 2.0**66  # the size of a tangent beside others: their sum and difference keep no digit of these


@dataclass(frozen=True, eq=False)
class Comparison:
    """A case with both sides.

    Attributes:
        entrywise: each number of the result depends on the inputs at its place alone.
        jax: that of JAX's own function, if there is one, else that of the reference.
        usable: where the values agree and are finite; of an elementwise operator by entry, of others all or none.
        own: JAX's own function.
        ordinary: False at special points, where a tangent much larger than others would hide a kink.
    """

    case: Case
    pytorch: Side
    jax: Side
    entrywise: bool
    usable: np.ndarray
    own: Callable[..., Any] | None = None
    ordinary: bool = True
    programs: dict[str, core.ClosedJaxpr | None] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, pytorch: Side, own: Callable[..., Any] | None) -> Self:
        """Compare the values; `own` is JAX's own function, if there is one."""
        return cls._of(case, pytorch, case.in_jax(own), case.entrywise, own)

    def at(self, case: Case, pytorch: Side) -> Self:
        """Return the comparison for another case, of which only the inputs differ, and perhaps their shapes."""
        return replace(self._of(case, pytorch, self.jax, self.entrywise, self.own), ordinary=False)

    @classmethod
    def _of(cls, case: Case, pytorch: Side, side: Side, entrywise: bool, own: Callable[..., Any] | None) -> Self:
        found = side("forward", list(case.inputs.values()))
        given = [case.call.results[i] for i in case.results.values()]
        if [y.shape for y in found] != [y.shape for y in given]:
            return cls(case, pytorch, side, False, np.zeros((), bool))
        floor = floor_of(list(case.inputs.values())) if entrywise else None
        differs = [differing_values(a, b, floor) for a, b in zip(given, found, strict=True)]
        if entrywise:
            return cls(case, pytorch, side, True, ~differs[0], own)
        return cls(case, pytorch, side, False, np.asarray(not any(d.any() for d in differs)), own)

    def judge(self, modes: Sequence[str], tallies: dict[tuple[str, str], Tally]) -> None:
        """Compare every mode, and note what came of it."""
        finite = all(np.isfinite(x).all() for x in self.case.inputs.values())
        for mode in modes if finite else [mode for mode in modes if mode in _FIRST_ORDER]:
            of_mode = {name: tally for (which, name), tally in tallies.items() if which == mode}
            try:
                self._judge(mode, of_mode)
            except REFUSALS as error:
                for tally in of_mode.values():
                    tally.refused(shortened(error))

    def _judge(self, mode: str, tallies: dict[str, Tally]) -> None:
        why = "" if self.usable.any() else "PyTorch's values and those of the reference differ, or are not finite"
        if not self.entrywise and any(is_up_to_the_processor(x) for x in self.case.inputs.values()):
            why = "what comes of a complex number that is not finite is up to the processor"
        if why:
            for tally in tallies.values():
                tally.refused(why)
            return
        self._compare(mode, self.case.arguments(mode), tallies)
        if mode == "vjp":
            rng = np.random.default_rng(1)
            results = [self.case.call.results[i] for i in self.case.results.values()]
            for cotangent in COTANGENTS[1:] if all(y.ndim for y in results) else ():
                bars = [cotangent.of(y, rng) for y in results]
                self._compare(mode, [*self.case.inputs.values(), *bars], tallies)
        given, count = self.case.arguments(mode), len(self.case.inputs)
        unequal = mode == "jvp" and count > 1 and self.entrywise and self.ordinary
        for i in range(count) if unequal else ():
            self._compare(mode, [x * _UNEQUAL if k == count + i else x for k, x in enumerate(given)], tallies)

    def _compare(self, mode: str, given: Sequence[np.ndarray | torch.Tensor], tallies: dict[str, Tally]) -> None:
        """Compare a mode at arguments, some of which may be tensors, for the sake of how they lie in memory."""
        arguments = [x.numpy() if isinstance(x, torch.Tensor) else x for x in given]
        agrees, level = self._below(mode, arguments)
        usable = self.usable & agrees
        found, other = self.pytorch(mode, given), self.jax(mode, arguments)
        again = self.pytorch(mode, given) if self.case.may_draw else found
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, again, strict=True)):
            for tally in tallies.values():
                tally.refused("the operator draws random numbers")
            return
        for index, label in enumerate(self.case.labels(mode)):
            tally = tallies.get(plain(label))
            if tally is None:
                continue
            if not usable.any():
                tally.refused("the frameworks differ already on what is differentiated again")
                continue
            p, j = found[index], other[index]
            tally.compared(self.case.call, bool(np.any((p != 0) & usable)))
            if p.size and (self.entrywise or usable.all()):
                first = tuple(int(i) for i in np.unravel_index(int(np.argmax(usable)), p.shape))
                tally.zero = functools.partial(self._decided, mode, arguments, index, first, p, j, level)
            most = _MOST_WITNESSED_ENTRYWISE if self.entrywise else _MOST_WITNESSED
            most = 1 if tally.verdict.is_wrong else most  # that somebody is wrong is known already
            differs = self._in_question(mode, arguments, index, p, j, level)
            places = asked(p, j, differs & usable, arguments if self.entrywise else (), most)
            of_terms = np.maximum(level, self._terms(mode, arguments, index)) if places else level
            for place in places:
                tally.found(*self._decided(mode, arguments, index, place, p, j, of_terms))

    def _terms(self, mode: str, arguments: Arrays, index: int) -> float:
        """The size of what is added up in a result, which may cancel: that of the same with signs drawn at random."""
        count, rng = self.case.map(mode).base, np.random.default_rng(0)
        if self.entrywise:
            return 0.0
        mixed = [x * rng.choice([-1.0, 1.0], x.shape) for x in arguments[count:]]
        return largest_of(self.jax(mode, [*arguments[:count], *mixed])[index])

    def _below(self, mode: str, arguments: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Where both sides agree on the map that a mode differentiates and it is finite; and its largest number.

        Of an elementwise operator that is the number at each place: those at other places say nothing of it.
        """
        base = BASES[mode]
        given = arguments[: self.case.map(mode).base]
        others = self.jax(base, given)
        sizes = [np.abs(np.where(np.isfinite(y), y, 0)) for y in others]
        level = np.max(sizes, axis=0) if self.entrywise else np.max([y.max(initial=0) for y in sizes], initial=0)
        pairs = zip(others if base == "forward" else self.pytorch(base, given), others, strict=True)
        floor = floor_of(given) if self.entrywise else None
        bad = [differing_values(a, b, floor) | ~np.isfinite(b) for a, b in pairs]
        return (~np.any(bad, axis=0) if self.entrywise else np.asarray(not any(d.any() for d in bad))), level

    def _in_question(
        self, mode: str, arguments: Arrays, index: int, p: np.ndarray, j: np.ndarray, level: np.ndarray
    ) -> np.ndarray:
        """Where witnesses are asked."""
        return self._differing(mode, p, j, level) | self._both_undefined(mode, arguments, p, j)

    def _differing(self, mode: str, p: np.ndarray, j: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Where the sides differ by so much that a witness can tell."""
        if not self.entrywise:
            return differing(p, j, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS * float(level))
        if self._program(mode) is None:
            return differing(p, j, HALF_OF_THE_DIGITS, 0.0, MOST_OF_THE_DIGITS * level)
        return differing(p, j, MOST_OF_THE_DIGITS, 0.0)

    def _both_undefined(self, mode: str, arguments: Arrays, p: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Where both sides say NaN of a first derivative, though all arguments are finite."""
        if mode not in _FIRST_ORDER or not (self.entrywise or all(np.isfinite(x).all() for x in arguments)):
            return np.zeros(p.shape, bool)
        finite = np.all([np.isfinite(x) for x in arguments], axis=0) if self.entrywise else True
        return np.isnan(p) & np.isnan(j) & finite

    def _program(self, mode: str) -> core.ClosedJaxpr | None:
        """The program of the map that a mode differentiates, if it can be evaluated with hundreds of bits."""
        if BASES[mode] not in self.programs:
            case = self._single if self.entrywise else self.case
            self.programs[BASES[mode]] = traced(case, case.jax_function(), mode)
        return self.programs[BASES[mode]]

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
        """The verdict on one number, its reason, and the finding."""
        case = self.case
        if self.entrywise:
            case, arguments, here = self._single, [x[place].reshape(1) for x in arguments], (0,)
            largest = max(largest_of(j[place]), float(level[place]))
        else:
            here = place
            largest = max(largest_of(j), float(level))
        worst, reason, slope, at = Verdict.AGREES, "", None, (mode, arguments, index, here, p[place], j[place])
        if not all(np.isfinite(x).all() for x in arguments):
            return Verdict.CONVENTION, "an input is not finite", lambda: self._finding(*at, None)
        parts = [np.real, np.imag] if j.dtype.kind == "c" else [np.real]
        for path, part in zip(paths(case, mode, arguments, index, here), parts, strict=True):
            # A large cotangent, which the path is divided by, multiplies what is differentiated, too
            of_all = max(largest / path.scale, float(level[place]) if self.entrywise else 0.0)
            numbers = float(part(p[place])), float(part(j[place]))
            slopes, verdict, why = self._ruling(mode, path, numbers, of_all, (arguments, index, here))
            # Of an elementwise operator of one number both slopes were asked
            if verdict.is_wrong and not (self.entrywise and len(self.case.inputs) == 1):
                verdict, why = self._chosen(verdict, mode, arguments, path, (index, here), (p[place], j[place]))
            if verdict is Verdict.CONVENTION and mode == "vjp" and not self.entrywise and p.dtype.kind == "f":
                verdict, why, slopes = self._of_all_together(mode, path, (p, j), (verdict, why, slopes))
            if verdict.is_wrong and self.entrywise and self._is_of_a_choice(mode, path):
                verdict, why = Verdict.CONVENTION, "what is differentiated has a kink that a zero hides"
            numbers = [number / path.scale for number in numbers]
            if verdict.is_wrong and self.entrywise and self._is_undetermined(mode, path, slopes, numbers):
                verdict, why = Verdict.LOSES_DIGITS, "a rounding of the inputs moves it as far"
            if verdict.is_wrong and self.entrywise and self._is_of_a_tail(mode, arguments, place, slopes, numbers):
                verdict, why = Verdict.LOSES_DIGITS, "it is less than a rounding of the function's value"
            if verdict.rank >= Verdict.UNDECIDED.rank and any(is_extreme(x).any() for x in arguments):
                verdict, why = Verdict.OVERFLOWS, f"{verdict}: {why}" if why else str(verdict)
            if verdict.rank > worst.rank:
                worst, reason, slope = verdict, why, slopes
        if self.own is None and worst in (Verdict.WRONG_IN_JAX, Verdict.WRONG_IN_BOTH):
            reason = _OF_THE_REFERENCE
        return worst, reason, lambda: self._finding(*at, slope)

    def _is_of_a_tail(
        self, mode: str, arguments: Arrays, place: tuple[int, ...], slopes: Slopes, numbers: Sequence[float]
    ) -> bool:
        """Whether a higher derivative is less than a rounding of the function's value."""
        value = self.case.call.results[next(iter(self.case.results.values()))][place]
        weights = [float(np.abs(x).max()) for x in arguments[len(self.case.inputs) :]]
        order = len(ORDERS[mode])
        return order > 1 and is_below_rounding(value, self._slope(arguments), weights, order, slopes, numbers)

    def _is_undetermined(self, mode: str, path: Path, slopes: Slopes, numbers: Sequence[float]) -> bool:
        """Whether numbers are as near to the right one as that of inputs off by a rounding, as beside a pole."""
        right, moved = self._in_hundreds_of_bits(mode, path), 0.0
        if right is None or not np.isfinite(numbers).all():
            return False
        for sign in (-1, 1):
            rounded = replace(path, arguments=[x * (1 + sign * _ROUNDING) for x in path.arguments])
            near = self._in_hundreds_of_bits(mode, rounded)
            moved = max(moved, abs(near.high - slopes.high) if near is not None and near.known else np.inf)
        return all(abs(number - slopes.high) <= 2 * moved for number in numbers)

    def _slope(self, arguments: Arrays) -> float:
        """The size of the first derivative of a function of one number, by witnesses; 0 if they cannot tell."""
        given = [arguments[0], np.ones_like(self._single.call.results[0])] if len(self.case.inputs) == 1 else []
        found = (
            [self._in_hundreds_of_bits("vjp", p) for p in paths(self._single, "vjp", given, 0, (0,))] if given else []
        )
        return float(np.linalg.norm([s.high for s in found if s is not None and s.known]))

    def _finding(
        self, mode: str, arguments: Arrays, index: int, place: tuple[int, ...], p: Any, j: Any, slopes: Slopes | None
    ) -> Finding:
        case = self._single if self.entrywise else self.case
        return Finding(
            point=in_short(case, mode, arguments),
            place=place,
            pytorch=repr(p.item()),
            jax=repr(j.item()),
            right="" if slopes is None else str(slopes),
            witness="" if slopes is None else slopes.witness,
            repro=repro(case, mode, arguments, index, place),
        )

    def _ruling(self, mode: str, path: Path, numbers: tuple[float, float], largest: float, at: At) -> Ruling:
        """Return the ruling by extended precision or, where that cannot tell, by the values of both frameworks."""
        case = self._single if self.entrywise else self.case
        side = self._single_side if self.entrywise else self.jax

        def rounding() -> float:
            function, (arguments, index, place) = self.own or case.jax_function(), at
            precision = COMPLEX128 if any(x.dtype.kind == "c" for x in arguments) else FLOAT64
            return float(explained(case, side, function, mode, arguments, index, precision)[place])

        def ruled(slopes: Slopes) -> tuple[Verdict, str]:
            part = MOST_OF_THE_DIGITS if self.entrywise else HALF_OF_THE_DIGITS
            return decided(*numbers, slopes, largest, path.scale, part, mode in _FIRST_ORDER, rounding)

        if (slopes := self._in_hundreds_of_bits(mode, path)) is not None:
            verdict, reason = ruled(slopes)
            if verdict is not Verdict.UNDECIDED:
                return slopes, verdict, reason
        found = [slopes_by(which, case, mode, path, _OF_VALUES) for which in (case.in_pytorch, side)]
        rulings = [*map(ruled, found)]
        if rulings[0][0] is not rulings[1][0]:  # as on a branch cut on whose sides the frameworks put different zeros
            return found[0], accused_by_both(rulings[0][0], rulings[1][0]), _NOT_THE_SAME
        best = min(zip(found, rulings, strict=True), key=lambda each: each[0].error)
        return best[0], *best[1]

    def _in_hundreds_of_bits(self, mode: str, path: Path) -> Slopes | None:
        """The slopes by JAX's program, or by mpmath's own function, if there is one of the two."""
        if (program := self._program(mode)) is not None:
            return exactly(program, path)
        return holomorphic_slopes(self._single, mode, path) if self.entrywise else None

    def _chosen(
        self,
        verdict: Verdict,
        mode: str,
        arguments: Arrays,
        path: Path,
        which: tuple[int, tuple[int, ...]],
        numbers: tuple[Any, Any],
    ) -> tuple[Verdict, str]:
        """The verdict on who is wrong by the slopes along one path: at a kink, who is not right nearby either."""
        if self.entrywise:
            case, sides = self._single, (self._single.in_pytorch, self._single_side)
        else:
            case, sides = self.case, (self.pytorch, self.jax)
        if not has_kink(sides[1], case, mode, path):
            return verdict, ""
        pairs = zip(sides, numbers, strict=True)
        right = [is_limit(side, sides[1], case, mode, arguments, which, number) for side, number in pairs]
        if all(right):
            return Verdict.CONVENTION, "the function is not differentiable there"
        if not any(right):
            return verdict, ""
        return (Verdict.WRONG_IN_JAX if right[0] else Verdict.WRONG_IN_PYTORCH), ""

    def _of_all_together(
        self, mode: str, path: Path, gradients: tuple[np.ndarray, np.ndarray], otherwise: tuple[Verdict, str, Slopes]
    ) -> tuple[Verdict, str, Slopes]:
        """The verdict at a kink that is none where all entries move together: by the sums of the gradients."""
        slopes = all_together(self.jax, self.case, mode, path)
        if slopes is None:
            return otherwise
        p, j = (float(np.sum(x)) for x in gradients)
        largest = max((float(np.abs(x).sum()) / path.scale for x in gradients if np.isfinite(x).all()), default=0.0)
        verdict, _ = decided(p, j, slopes, largest, path.scale, HALF_OF_THE_DIGITS, is_first=True)
        return (verdict, _OF_A_SUM, slopes) if verdict.is_wrong else otherwise

    def _is_of_a_choice(self, mode: str, path: Path) -> bool:
        """Whether the first derivatives that are differentiated differ along the path, and only by convention.

        At a kink of f that of x f(y) with respect to y is whatever slope is chosen; at x = 0 all choices agree.
        """
        base, sides = BASES[mode], (self._single.in_pytorch, self._single_side)
        if base not in _FIRST_ORDER:
            return False
        moved = [x + _AWAY * max(path.size, 1.0) * d for x, d in zip(path.arguments, path.direction, strict=True)]
        found, verdicts = [side(base, moved) for side in sides], set()
        for index, (a, b) in enumerate(zip(*found, strict=True)):
            if differing(a, b, HALF_OF_THE_DIGITS, 0.0).any():
                which, part = paths(self._single, base, moved, index, (0,)), (np.real, np.imag)
                for along, of in zip(which, part, strict=False):
                    numbers, at = (float(of(a[0])), float(of(b[0]))), (moved, index, (0,))
                    verdicts.add(self._ruling(base, along, numbers, largest_of(b) / along.scale, at)[1])
        return Verdict.CONVENTION in verdicts and verdicts <= {Verdict.CONVENTION, Verdict.AGREES}

    @functools.cached_property
    def _single(self) -> Case:
        """The case of one number only, of an elementwise operator."""
        return self.case.at([x.reshape(-1)[:1] for x in self.case.inputs.values()])

    @functools.cached_property
    def _single_side(self) -> Side:
        return self._single.in_jax(self.own)


def shortened(error: BaseException) -> str:
    """Return the first line of an error, with its type."""
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0][:200]}"
