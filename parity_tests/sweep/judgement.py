"""The verdicts on the derivatives of one operator: PyTorch's against JAX's, on many calls, with witnesses."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.extend import core

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.maps import BASES
from parity_tests.sweep.calls import calls_of
from parity_tests.sweep.cases import Arrays, Case, NoReference, Side, case_of
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, decided, differing
from parity_tests.sweep.invariants import CONSTANT, INVARIANTS
from parity_tests.sweep.jax_own import own_function
from parity_tests.sweep.lines import Finding, Line, Verdict
from parity_tests.sweep.recorded_calls import RecordedCall
from parity_tests.sweep.repro import repro
from parity_tests.sweep.slopes import Slopes
from parity_tests.sweep.witnesses import Path, exactly, paths, slopes_by, traced
from torch_impl.derivatives import Entry, lookup

_REFUSALS = (Refused, RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
_ASKED = 6  # numbers of a result of which witnesses are asked
_ASKED_ENTRYWISE = 48


_Told = Callable[[], tuple[Verdict, str, Callable[[], Finding]]]


@dataclass
class _Tally:
    """What came of one derivative so far."""

    verdict: Verdict = Verdict.UNREACHED
    calls: set[int] = field(default_factory=set)
    moves: bool = False
    reason: str = "no call reaches it"
    finding: Finding | None = None
    zero: _Told | None = None  # what witnesses say where both sides are zero

    def compared(self, call: RecordedCall, moves: bool) -> None:
        self.calls.add(id(call))
        self.moves = self.moves or moves
        if self.verdict is Verdict.UNREACHED:
            self.verdict, self.reason = Verdict.AGREES, ""

    def refused(self, reason: str) -> None:
        if self.verdict is Verdict.UNREACHED:
            self.reason = reason

    def found(self, verdict: Verdict, reason: str, finding: Callable[[], Finding]) -> None:
        if verdict.rank > self.verdict.rank:
            self.verdict, self.reason, self.finding = verdict, reason, finding()


def _by_autograd(case: Case) -> Side:
    return case.in_pytorch


def judge_operator(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """Judge PyTorch's derivatives of the operator of an entry, and JAX's.

    Args:
        operator: the entry's name, with its overload: "logaddexp", "sum.dim_IntList".
        modes: of `lines.MODES`.
        dtypes: "float64", "complex128".

    Returns:
        A line for each input and result that has a formula, in every mode and dtype.

    Raises:
        LookupError: PyTorch has no such entry.
    """
    return judge_entry(lookup(operator), modes, dtypes)


def judge_entry(
    entry: Entry,
    modes: Sequence[str],
    dtypes: Sequence[str],
    pytorch: Callable[[Case], Side] = _by_autograd,
    calls: Callable[[str, str], Sequence[RecordedCall]] = calls_of,
) -> list[Line]:
    """Judge derivatives of the operator of an entry.

    Args:
        entry: says what has a derivative.
        modes, dtypes: see `judge_operator`.
        pytorch: the maps of a case that are judged; by default those of PyTorch's autograd.
        calls: where they are judged, for the entry's name and a dtype.
    """
    began = time.process_time()
    found: dict[tuple[str, str, str], _Tally] = {}
    with jax.enable_x64(True):
        for dtype in dtypes:
            given = calls(entry.name, dtype)
            tallies = {(mode, name): _Tally() for mode in modes for name in _names(entry, mode, given)}
            found |= {(mode, name, dtype): tally for (mode, name), tally in tallies.items()}
            try:
                _judge(_cases(entry, given), pytorch, modes, tallies)
            except (NoReference, _Open) as reason:
                for tally in tallies.values():
                    tally.refused(str(reason))
    seconds = (time.process_time() - began) / max(1, len(found))
    return [
        Line(entry.name, mode, of, dtype, t.verdict, len(t.calls), t.reason, t.finding, round(seconds, 3))
        for (mode, of, dtype), t in found.items()
    ]


class _Open(Exception):
    """The operator leaves a choice open, such as signs of vectors, so that its derivatives cannot be compared."""


def _names(entry: Entry, mode: str, calls: Sequence[RecordedCall]) -> list[str]:
    """The derivatives of a mode by what they are of, as `Case.labels`, but those of a list of tensors together."""
    inputs = list(dict.fromkeys(name for formula in entry.vjps for name in formula.names))
    flags = zip(entry.result_names, entry.differentiable_outputs, strict=True)
    integers = {i for call in calls[:1] for i, y in enumerate(call.results) if y.dtype.kind not in "fc"}
    many = len(entry.result_names) > 1
    results = [name for i, (name, flag) in enumerate(flags) if flag and not (many and i in integers)]
    bars, dots = [f"{y}_bar" for y in results], [f"{x}_dot" for x in inputs]
    names = {
        "vjp": inputs,
        "jvp": results,
        "vjp_of_vjp": [*inputs, *bars],
        "jvp_of_vjp": [f"{x}_bar" for x in inputs],
        "vjp_of_jvp": [*inputs, *dots],
        "jvp_of_jvp": [f"{y}_dot" for y in results],
    }
    return names[mode]


def plain(label: str) -> str:
    """Return a label without the place in a list: "tensors_dot" of "tensors[1]_dot"."""
    name, bracket, rest = label.partition("[")
    return name + rest.partition("]")[2] if bracket else name


def _cases(entry: Entry, calls: Sequence[RecordedCall]) -> Iterator[Case]:
    packet = f"aten::{entry.name.partition('.')[0]}"
    if packet in INVARIANTS:
        raise _Open("it leaves signs and phases of vectors open")
    if packet in CONSTANT:
        raise _Open("it has no derivative by definition")
    for call in calls:
        case = case_of(entry, call)
        if case is not None and any(x.size for x in case.inputs.values()):
            yield case


def _judge(
    cases: Iterator[Case],
    pytorch: Callable[[Case], Side],
    modes: Sequence[str],
    tallies: dict[tuple[str, str], _Tally],
) -> None:
    every = list(cases)
    own = own_function(every)
    for case in every:
        try:
            _Comparison.of(case, pytorch(case), own(case)).judge(modes, tallies)
        except _REFUSALS as error:
            for tally in tallies.values():
                tally.refused(f"the reference refuses a call: {_shortened(error)}")
    for tally in tallies.values():
        if tally.zero is not None and not tally.moves and tally.verdict is Verdict.AGREES:
            verdict, reason, finding = tally.zero()  # that two agree on zero everywhere shows little
            if verdict is Verdict.WRONG_IN_BOTH:
                tally.found(verdict, reason, finding)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """A case with both sides.

    Attributes:
        entrywise: each number of the result depends on the inputs at its place alone.
        jax: that of JAX's own function, if there is one, else that of the reference.
        usable: where the values agree and are finite; of an elementwise operator by entry, of others all or none.
        own: JAX's own function.
    """

    case: Case
    pytorch: Side
    jax: Side
    entrywise: bool
    usable: np.ndarray
    own: Callable[..., Any] | None = None
    programs: dict[str, core.ClosedJaxpr | None] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, pytorch: Side, own: Callable[..., Any] | None) -> _Comparison:
        """Compare the values."""
        entrywise, side = case.entrywise, case.in_jax(own)
        found = side("forward", list(case.inputs.values()))
        given = [case.call.results[i] for i in case.results.values()]
        if [y.shape for y in found] != [y.shape for y in given]:
            return cls(case, pytorch, side, False, np.zeros((), bool))
        differs = [_differing_values(a, b, entrywise) for a, b in zip(given, found, strict=True)]
        if entrywise:
            return cls(case, pytorch, side, True, ~differs[0] & np.isfinite(given[0]), own)
        finite = all(np.isfinite(y).all() for y in given)
        return cls(case, pytorch, side, False, np.asarray(finite and not any(d.any() for d in differs)))

    def judge(self, modes: Sequence[str], tallies: dict[tuple[str, str], _Tally]) -> None:
        """Compare every mode, and note what came of it."""
        for mode in modes:
            of_mode = {name: tally for (which, name), tally in tallies.items() if which == mode}
            try:
                self._judge(mode, of_mode)
            except _REFUSALS as error:
                for tally in of_mode.values():
                    tally.refused(_shortened(error))

    def _judge(self, mode: str, tallies: dict[str, _Tally]) -> None:
        if not self.usable.any():
            for tally in tallies.values():
                tally.refused("PyTorch's values and those of the reference differ")
            return
        arguments = self.case.arguments(mode)
        agrees, level = self._below(mode, arguments)
        usable = self.usable & agrees
        found, other = self.pytorch(mode, arguments), self.jax(mode, arguments)
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
            for place in self._places(p, j, self._differing(mode, p, j, level) & usable):
                verdict, reason, finding = self._decided(mode, arguments, index, place, p, j, level)
                tally.found(verdict, reason, finding)

    def _below(self, mode: str, arguments: Arrays) -> tuple[np.ndarray, float]:
        """Where both sides agree on the map that a mode differentiates, and its largest number."""
        base = BASES[mode]
        given = arguments[: self.case.map(mode).base]
        others = self.jax(base, given)
        level = max((_largest(y) for y in others), default=0.0)
        if base == "forward":
            return self.usable, level
        differs = [
            _differing_values(a, b, self.entrywise) for a, b in zip(self.pytorch(base, given), others, strict=True)
        ]
        agrees = ~np.any(differs, axis=0) if self.entrywise else np.asarray(not any(d.any() for d in differs))
        return agrees, level

    def _differing(self, mode: str, p: np.ndarray, j: np.ndarray, level: float) -> np.ndarray:
        """Where the sides differ by so much that a witness can tell."""
        if not self.entrywise:
            return differing(p, j, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS * level)
        if self._program(mode) is None:
            return differing(p, j, HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, MOST_OF_THE_DIGITS * level)
        return differing(p, j, MOST_OF_THE_DIGITS, 0.0)

    def _program(self, mode: str) -> core.ClosedJaxpr | None:
        """The program of the map that a mode differentiates, if it can be evaluated with hundreds of bits."""
        if BASES[mode] not in self.programs:
            case = self._single if self.entrywise else self.case
            self.programs[BASES[mode]] = traced(case, case.jax_function(), mode)
        return self.programs[BASES[mode]]

    def _places(self, p: np.ndarray, j: np.ndarray, differs: np.ndarray) -> list[tuple[int, ...]]:
        """The places that are asked about: those that differ most, or are not finite, first."""
        with np.errstate(all="ignore"):
            off = np.abs(p - j) / np.maximum(np.abs(p), np.abs(j))
        off = np.where(differs, np.where(np.isfinite(off), off, np.inf), -1.0).ravel()
        count = min(int(differs.sum()), _ASKED_ENTRYWISE if self.entrywise else _ASKED)
        chosen = np.argsort(-off, kind="stable")[:count]
        return [tuple(int(i) for i in np.unravel_index(k, p.shape)) for k in chosen]

    def _decided(
        self,
        mode: str,
        arguments: Arrays,
        index: int,
        place: tuple[int, ...],
        p: np.ndarray,
        j: np.ndarray,
        level: float,
    ) -> tuple[Verdict, str, Callable[[], Finding]]:
        """The verdict on one number, its reason, and the finding."""
        case = self.case
        if self.entrywise:
            case, arguments, here = self._single, [x[place].reshape(1) for x in arguments], (0,)
        else:
            here = place
        largest = max(_largest(j), level)
        worst, reason, slope = Verdict.AGREES, "", None
        if not all(np.isfinite(x).all() for x in arguments):
            at = (mode, arguments, index, here, p[place], j[place], None)
            return Verdict.CONVENTION, "an input is not finite", lambda: self._finding(*at)
        parts = [np.real, np.imag] if j.dtype.kind == "c" else [np.real]
        for path, part in zip(paths(case, mode, arguments, index, here), parts, strict=True):
            slopes, verdict, why = self._told(mode, path, float(part(p[place])), float(part(j[place])), largest)
            if verdict.rank > worst.rank:
                worst, reason, slope = verdict, why, slopes

        def finding() -> Finding:
            return self._finding(mode, arguments, index, here, p[place], j[place], slope)

        return worst, reason, finding

    def _finding(
        self, mode: str, arguments: Arrays, index: int, place: tuple[int, ...], p: Any, j: Any, slopes: Slopes | None
    ) -> Finding:
        case = self._single if self.entrywise else self.case
        return Finding(
            point=_in_short(case, mode, arguments),
            place=place,
            pytorch=repr(p.item()),
            jax=repr(j.item()),
            right="" if slopes is None else str(slopes),
            witness="" if slopes is None else slopes.witness,
            repro=repro(case, mode, arguments, index, place),
        )

    def _told(self, mode: str, path: Path, p: float, j: float, largest: float) -> tuple[Slopes, Verdict, str]:
        """What the witnesses say, until one can tell."""
        last: tuple[Slopes, Verdict, str] | None = None
        for slopes in self._slopes(mode, path):
            verdict, reason = decided(p, j, slopes, largest)
            last = (slopes, verdict, reason)
            if verdict is not Verdict.UNDECIDED:
                break
        assert last is not None
        return last

    def _slopes(self, mode: str, path: Path) -> Iterator[Slopes]:
        case = self._single if self.entrywise else self.case
        if (program := self._program(mode)) is not None:
            yield exactly(program, path)
        yield slopes_by(case.in_pytorch, case, mode, path, "differences of PyTorch's own values")
        side = self._single_side if self.entrywise else self.jax
        yield slopes_by(side, case, mode, path, "differences of JAX's own values")

    @functools.cached_property
    def _single(self) -> Case:
        """The case of one number only, of an elementwise operator."""
        return self.case.at([x.reshape(-1)[:1] for x in self.case.inputs.values()])

    @functools.cached_property
    def _single_side(self) -> Side:
        return self._single.in_jax(self.own)


def _largest(x: np.ndarray) -> float:
    """The size of the largest finite number."""
    return float(np.abs(np.where(np.isfinite(x), x, 0)).max(initial=0))


def _differing_values(found: np.ndarray, other: np.ndarray, entrywise: bool) -> np.ndarray:
    """Where two values differ, or two derivatives that are differentiated again."""
    return differing(found, other, HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS if entrywise else HALF_OF_THE_DIGITS)


def _shortened(error: Exception) -> str:
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0][:200]}"


def _in_short(case: Case, mode: str, arguments: Sequence[np.ndarray]) -> str:
    slots = case.map(mode).arguments
    with np.printoptions(threshold=12, precision=17):
        return "; ".join(
            f"{slot.label} = {np.array2string(x, separator=', ').replace(chr(10), ' ')}"
            for slot, x in zip(slots, arguments, strict=True)
        )
