"""The verdicts on the derivatives of one operator: PyTorch's against JAX's, on many calls, with witnesses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax

from parity_tests.sweep.calls import calls_of
from parity_tests.sweep.cases import Case, NoReference, Side, case_of
from parity_tests.sweep.compared_case import REFUSALS, Comparison, shortened
from parity_tests.sweep.domains import has_derivative
from parity_tests.sweep.drawn import DECLARED
from parity_tests.sweep.invariants import CONSTANT, INVARIANTS, OF_SAVED_STATISTICS
from parity_tests.sweep.jax_own import own_function
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.recorded_calls import RecordedCall
from parity_tests.sweep.special_calls import special_calls
from parity_tests.sweep.tallies import Tally, names_of
from torch_impl.derivatives import Entry, lookup


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
    special: Callable[[RecordedCall, Sequence[str]], Iterable[RecordedCall]] = special_calls,
) -> list[Line]:
    """Judge derivatives of the operator of an entry.

    Args:
        entry: says what has a derivative.
        modes, dtypes: see `judge_operator`.
        pytorch: the maps of a case that are judged; by default those of PyTorch's autograd.
        calls: where they are judged, for the entry's name and a dtype.
        special: further calls like the first one, of which these inputs are special points.
    """
    began = time.process_time()
    found: dict[tuple[str, str, str], Tally] = {}
    with jax.enable_x64(True):
        for dtype in dtypes:
            given = calls(entry.name, dtype)
            tallies = {(mode, name): Tally() for mode in modes for name in names_of(entry, mode, given)}
            found |= {(mode, name, dtype): tally for (mode, name), tally in tallies.items()}
            for (_, name), tally in tallies.items():
                if name.removesuffix("_dot") in entry.not_implemented:
                    tally.refused("PyTorch has not implemented it")
            try:
                _judge(cases_of(entry, given), pytorch, special, modes, tallies)
            except (NoReference, NoDerivative) as reason:
                for tally in tallies.values():
                    tally.refused(str(reason))
    seconds = (time.process_time() - began) / max(1, len(found))
    return [
        Line(entry.name, mode, of, dtype, t.verdict, t.calls, t.reason, t.finding, round(seconds, 3))
        for (mode, of, dtype), t in found.items()
    ]


class NoDerivative(Exception):
    """The operator has no derivative by definition, or its formulas are not for what it returns."""


def cases_of(entry: Entry, calls: Sequence[RecordedCall]) -> Iterator[Case]:
    """Yield the calls of an entry's operator that have something to differentiate, as cases.

    Raises:
        NoDerivative: none has, for the reason that it says.
    """
    plain = entry.name.partition(".")[0]
    if plain in DECLARED:
        raise NoDerivative(DECLARED[plain])
    packet = f"aten::{plain}"
    if packet in CONSTANT:
        raise NoDerivative("it has no derivative by definition")
    if packet in OF_SAVED_STATISTICS:
        raise NoDerivative("its formulas take saved statistics, which are inputs, for functions of another input")
    for call in calls:
        case = case_of(entry, call)
        if case is not None and any(x.size for x in case.inputs.values()) and has_derivative(call):
            yield case


def _judge(
    cases: Iterator[Case],
    pytorch: Callable[[Case], Side],
    special: Callable[[RecordedCall, Sequence[str]], Iterable[RecordedCall]],
    modes: Sequence[str],
    tallies: dict[tuple[str, str], Tally],
) -> None:
    every = list(cases)
    own = own_function(every)
    for number, case in enumerate(every):
        try:
            comparison = Comparison.of(case, pytorch(case), own(case))
            comparison.judge(modes, tallies)
            for other in special_cases(case, special) if number == 0 else ():
                comparison.at(other, pytorch(other)).judge(modes, tallies)
        except REFUSALS as error:
            for tally in tallies.values():
                tally.refused(f"the reference refuses a call: {shortened(error)}")
    for tally in tallies.values():
        if tally.zero is not None and not tally.moves and tally.verdict is Verdict.AGREES:
            verdict, reason, finding = tally.zero()  # that two agree on zero everywhere shows little
            if verdict is Verdict.WRONG_IN_BOTH:
                tally.found(verdict, reason, finding)


def special_cases(
    case: Case, special: Callable[[RecordedCall, Sequence[str]], Iterable[RecordedCall]] = special_calls
) -> Iterator[Case]:
    """Yield a case at special points."""
    if case.call.name in INVARIANTS:  # where values are equal, or zero, the vectors have no derivative
        return
    moving = list(dict.fromkeys(name.partition("[")[0] for name in case.inputs))
    for call in special(case.call, moving):
        other = case_of(case.entry, call)
        if other is not None and any(x.size for x in other.inputs.values()) and has_derivative(call):
            yield other
