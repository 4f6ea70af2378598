"""The verdicts on the derivatives of one operator: PyTorch's against JAX's, on many calls, with witnesses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import jax

from parity_tests.sweep.batching import judge_batched
from parity_tests.sweep.cases import Case, NoReference, Side, case_of
from parity_tests.sweep.compared_case import REFUSALS, Comparison, shortened
from parity_tests.sweep.compiled import judge_compiled
from parity_tests.sweep.decompositions import NONE, decompositions, judge_decompositions
from parity_tests.sweep.domains import has_derivative
from parity_tests.sweep.drawn import DECLARED
from parity_tests.sweep.invariants import CONSTANT, INVARIANTS, OF_SAVED_STATISTICS
from parity_tests.sweep.jax_own import Own, own_function
from parity_tests.sweep.jitted import judge_jitted
from parity_tests.sweep.lines import BATCHED, COMPILED, DECOMPOSITION, JITTED, LOW_DTYPES, THIRD_ORDER, Line, Verdict
from parity_tests.sweep.low_precision import judge_in_format
from parity_tests.sweep.norm_calls import norm_calls
from parity_tests.sweep.recorded_calls import RecordedCall
from parity_tests.sweep.special_calls import special_calls
from parity_tests.sweep.tallies import Tally, names_of
from parity_tests.sweep.varied_calls import judged_calls
from torch_impl.derivatives import Entry, lookup

Tallies = dict[tuple[str, str], Tally]  # by mode, and what they are of
Calls = Callable[[str, str], Sequence[RecordedCall]]
Special = Callable[[RecordedCall, Sequence[str]], Iterable[RecordedCall]]

_ON_REQUEST = (BATCHED, COMPILED, DECOMPOSITION, JITTED)
_BACKWARD = "the backward"  # what a line is of if no operator is decomposed
_FULL_PRECISION_ONLY = "it is judged in float64 and complex128 only"


def _by_autograd(case: Case) -> Side:
    return case.in_pytorch


def judge_operator(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """Judge PyTorch's derivatives of the operator of an entry, and JAX's.

    Args:
        operator: the entry's name, with its overload: "logaddexp", "sum.dim_IntList".
        modes: of `lines.ALL_MODES`.
        dtypes: of `lines.ALL_DTYPES`.

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
    calls: Calls = judged_calls,
    special: Special = special_calls,
    norms: Calls = norm_calls,
) -> list[Line]:
    """Judge derivatives of the operator of an entry.

    Args:
        entry: says what has a derivative.
        modes, dtypes: see `judge_operator`.
        pytorch: the maps of a case that are judged; by default those of PyTorch's autograd.
        calls: where they are judged, for the entry's name and a dtype, "float64" or "complex128".
        special: further calls like the first one, of which these inputs are special points.
        norms: further calls at which third derivatives are judged.
    """
    began = time.process_time()
    found: dict[tuple[str, str, str], Tally] = {}
    with jax.enable_x64(True):
        for dtype in dtypes:
            given = calls(entry.name, "float64" if dtype in LOW_DTYPES else dtype)
            tallies = {(mode, name): Tally() for mode in modes for name in names_of(entry, mode, given)}
            for (_, name), tally in tallies.items():
                if name.removesuffix("_dot") in entry.not_implemented:
                    tally.refused("PyTorch has not implemented it")
            try:
                if THIRD_ORDER in modes and dtype not in LOW_DTYPES:
                    third = [*cases_of(entry, norms(entry.name, dtype)), *cases_of(entry, given)]
                    _judge(third, pytorch, special, [THIRD_ORDER], tallies)
                cases = list(cases_of(entry, given))
                if DECOMPOSITION in modes:
                    tallies |= _of_decompositions(dtype, cases, special)
                _judge_in(dtype, cases, pytorch, special, modes, tallies)
            except (NoReference, NoDerivative) as reason:
                for tally in tallies.values():
                    tally.refused(str(reason))
            found |= {(mode, name, dtype): tally for (mode, name), tally in tallies.items()}
    seconds = (time.process_time() - began) / max(1, len(found))
    return [
        Line(entry.name, mode, of, dtype, t.verdict, t.calls, t.reason, t.finding, round(seconds, 3))
        for (mode, of, dtype), t in found.items()
    ]


class NoDerivative(Exception):
    """The operator has no derivative by definition, or its formulas are not for what it returns."""


def _judge_in(
    dtype: str,
    cases: Sequence[Case],
    pytorch: Callable[[Case], Side],
    special: Special,
    modes: Sequence[str],
    tallies: Tallies,
) -> None:
    """Judge all modes but the third order and the decompositions in a dtype; raises `NoReference`."""
    by_jax = [mode for mode in modes if mode not in (*_ON_REQUEST, THIRD_ORDER)]
    if BATCHED in modes:
        _judge_batched(dtype, cases, tallies)
    for mode, judge in ((COMPILED, judge_compiled), (JITTED, judge_jitted)):
        if mode in modes:
            _judge_compiled(judge, dtype, cases, special, {n: t for (m, n), t in tallies.items() if m == mode})
    if dtype in LOW_DTYPES:
        low = [mode for mode in modes if mode not in _ON_REQUEST]
        _judge_low(dtype, cases, special, low, tallies)
        return
    if by_jax:
        _judge(cases, pytorch, special, by_jax, tallies)


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
    every: Sequence[Case], pytorch: Callable[[Case], Side], special: Special, modes: Sequence[str], tallies: Tallies
) -> None:
    """Compare the modes that JAX has, too, on cases, and on others like the first one at special points."""
    own = own_function(every)
    of_modes = {key: tally for key, tally in tallies.items() if key[0] in modes}
    for number, case in enumerate(every):
        try:
            comparison = Comparison.of(case, pytorch(case), own(case))
            comparison.judge(modes, of_modes)
            for other in special_cases(case, special) if number in _at_special_points(every) else ():
                comparison.at(other, pytorch(other)).judge(modes, of_modes)
        except REFUSALS as error:
            for tally in of_modes.values():
                tally.refused(f"the reference refuses a call: {shortened(error)}")
    for tally in of_modes.values():
        if tally.zero is not None and not tally.moves and tally.verdict is Verdict.AGREES:
            verdict, reason, finding = tally.zero()  # that two agree on zero everywhere shows little
            if verdict is Verdict.WRONG_IN_BOTH:
                tally.found(verdict, reason, finding)


def _at_special_points(cases: Sequence[Case]) -> list[int]:
    """The numbers of the cases that are judged at special points: the first one of each name among the arguments."""
    names = [tuple(value for value in case.call.arguments.values() if isinstance(value, str)) for case in cases]
    return [names.index(each) for each in dict.fromkeys(names)]


def _judge_low(dtype: str, cases: Sequence[Case], special: Special, modes: Sequence[str], tallies: Tallies) -> None:
    own: Own = own_function(cases)
    every = [*cases, *(special_cases(cases[0], special) if cases else ())]
    judge_in_format(every, lambda case: own(case) or case.jax_function(), dtype, modes, tallies)


def _judge_batched(dtype: str, cases: Sequence[Case], tallies: Tallies) -> None:
    """Judge PyTorch's batching rules by the harness; raises `NoReference`."""
    of_mode = {name: tally for (mode, name), tally in tallies.items() if mode == BATCHED}
    if dtype in LOW_DTYPES:
        for tally in of_mode.values():
            tally.refused(_FULL_PRECISION_ONLY)
        return
    for case in cases:
        if not case.may_draw:
            judge_batched(case, dtype, of_mode)


def _judge_compiled(
    judge: Callable[..., None], dtype: str, cases: Sequence[Case], special: Special, tallies: Mapping[str, Tally]
) -> None:
    """Judge what a compiler makes of the operator, or of JAX's function, by its name."""
    if dtype not in LOW_DTYPES:
        judge(cases, lambda case: special_cases(case, special), own_function(cases), tallies)
        return
    for tally in tallies.values():
        tally.refused(_FULL_PRECISION_ONLY)


def _of_decompositions(dtype: str, cases: Sequence[Case], special: Special) -> Tallies:
    """Return a tally for each operator that is decomposed, or one that says that there is none."""
    none = Tally()
    if dtype in LOW_DTYPES:
        none.refused(_FULL_PRECISION_ONLY)
        found = {}
    else:
        every = [*cases, *(special_cases(cases[0], special) if cases else ())]
        found = judge_decompositions(every, decompositions())
        none.refused(NONE)
    return {(DECOMPOSITION, name): tally for name, tally in (found or {_BACKWARD: none}).items()}


def special_cases(case: Case, special: Special = special_calls) -> Iterator[Case]:
    """Yield a case at special points."""
    if case.call.name in INVARIANTS:  # where values are equal, or zero, the vectors have no derivative
        return
    moving = list(dict.fromkeys(name.partition("[")[0] for name in case.inputs))
    for call in special(case.call, moving):
        other = case_of(case.entry, call)
        # Where an axis is empty a sum over it has a tangent still
        sizes = () if other is None else (x.size for x in (*other.inputs.values(), *other.call.results))
        if other is not None and any(sizes) and has_derivative(call):
            yield other
