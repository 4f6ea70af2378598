"""Operators as `torch.compile` compiles them: their values and gradients against JAX's.

A number counts if the compiled code has another one there than JAX and another one than PyTorch's operator as well:
where the compiled code and the operator agree, the other modes have judged it. So two implementations without a common
line stand against one, and where they differ a witness says who is right, as everywhere in the sweep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_leaves import leaves_of
from parity_tests.sweep.calls import arrays_of
from parity_tests.sweep.cases import Arrays, Case, Side, case_of, tensors_of
from parity_tests.sweep.compared_case import REFUSALS, Comparison, shortened
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, differing, floor_of
from parity_tests.sweep.domains import has_derivative
from parity_tests.sweep.elementwise import results_of
from parity_tests.sweep.jax_own import Own
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.recorded_calls import as_torch
from parity_tests.sweep.slopes import Slopes
from parity_tests.sweep.tallies import Tally, plain

GENERATED = "code was generated"  # how the reason of a line begins
KERNELS_ONLY = "only PyTorch's kernels are called"
AS_EAGER = "as PyTorch without a compiler, which differs from JAX"
RAISES = "compiled, a call raises"
_DRAWS = "it draws random numbers, of which the compiled code has others"
_OF_COMPILED_CODE = "of the compiled code"
_AGREEING = "PyTorch without a compiler and JAX, which agree"
_OTHERS = 1  # calls beside the first one that are compiled
_SIZES = 3  # other sizes at which code for all sizes is called

Compile = Callable[..., Callable[..., Any]]
Special = Callable[[Case], Iterator[Case]]


@dataclass(frozen=True)
class Unit:
    """Cases that are compiled as one graph, since a graph costs most of the time, and those that are judged with it.

    Attributes:
        heads: the cases that are compiled, side by side.
        points: further cases with the arrays of a head, by its number: of its shapes, or of others if it is dynamic.
        dynamic: the code is for all sizes.
    """

    heads: Sequence[Case]
    points: Mapping[int, Sequence[Case]] = field(default_factory=dict)
    dynamic: bool = False

    def split(self) -> Iterator[Unit]:
        """Yield the same with each head in a graph of its own."""
        for number, head in enumerate(self.heads):
            yield Unit([head], {0: self.points.get(number, ())}, self.dynamic)


@dataclass(frozen=True, eq=False)
class CompiledComparison(Comparison):
    """A case with the compiled code as PyTorch's side.

    Attributes:
        as_eager: what has a number in which the compiled code and PyTorch's operator agree, and JAX differs.
    """

    as_eager: set[str] = field(default_factory=set)

    def at(self, case: Case, pytorch: Side) -> CompiledComparison:
        """Return the comparison for another case; see `Comparison.at`."""
        other = self._of(case, pytorch, self.jax, self.entrywise, self.own)
        return replace(other, ordinary=False)  # pyright: ignore[reportReturnType] (it is of the same class)

    def judge_values(self, tallies: Mapping[str, Tally]) -> None:
        """Compare the values with PyTorch's and with JAX's, and note what came of it; raises what the code raises."""
        inputs = list(self.case.inputs.values())
        found, of_jax = self.pytorch("forward", inputs), self.jax("forward", inputs)
        for index, (name, number) in enumerate(self.case.results.items()):
            tally = tallies.get(plain(name))
            if tally is not None:
                eager = self.case.call.results[number]
                tally.compared(self.case.call, bool((eager != 0).any()))
                self._compare_values(tally, name, found[index], eager, of_jax[index])

    def _compare_values(self, tally: Tally, name: str, c: np.ndarray, e: np.ndarray, j: np.ndarray) -> None:
        if c.shape != e.shape or c.dtype != e.dtype:
            reason = f"the compiled code returns {c.dtype} of shape {c.shape}, not {e.dtype} of shape {e.shape}"
            tally.found(Verdict.WRONG_IN_PYTORCH, reason, lambda: self._of_value((), np.array(0), np.array(0)))
            return
        floor = floor_of(list(self.case.inputs.values())) if self.entrywise else 0.0
        of_largest = 0.0 if self.entrywise else MOST_OF_THE_DIGITS
        off = differing(c, e, MOST_OF_THE_DIGITS, of_largest, floor)
        if not off.any():
            return
        same_shape = j.shape == e.shape
        if same_shape:
            off &= differing(c, j, MOST_OF_THE_DIGITS, of_largest, floor)
        of_largest = 0.0 if self.entrywise else HALF_OF_THE_DIGITS
        far = off & differing(c, e, HALF_OF_THE_DIGITS, of_largest, floor)
        where = far if far.any() else off
        if not where.any():
            return
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), c.shape))
        verdict = Verdict.WRONG_IN_PYTORCH if far.any() else Verdict.LOSES_DIGITS
        digits = HALF_OF_THE_DIGITS if far.any() else MOST_OF_THE_DIGITS
        if not same_shape or differing(e, j, digits, of_largest, floor)[place]:
            verdict = Verdict.UNDECIDED if far.any() else Verdict.AGREES
        tally.found(verdict, _OF_COMPILED_CODE, lambda: self._of_value(place, c[place], e[place]))

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
            self.as_eager.add(plain(self.case.labels(mode)[index]))
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
                self.as_eager.add(plain(self.case.labels(mode)[index]))
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


class Code:
    """The operators of cases as one graph, compiled at the first call.

    Attributes:
        generated: of "forward" and "vjp", whether a kernel was generated.
        errors: of the compiler, and of the code where PyTorch without a compiler raises none.
    """

    def __init__(self, heads: Sequence[Case], dynamic: bool, compile: Compile) -> None:
        calls = [head.torch_call() for head in heads]

        def together(arguments: Sequence[Mapping[str, Any]], inputs: Sequence[Sequence[torch.Tensor]]) -> list[Any]:
            return [call(a, x) for call, a, x in zip(calls, arguments, inputs, strict=True)]

        self._call = compile(together, fullgraph=True, dynamic=dynamic or None)
        self._heads = heads
        self.generated: dict[str, bool] = {}
        self.errors: list[str] = []

    def works(self) -> bool:
        """Whether it compiles, and returns values and gradients at the first of its cases; no error is noted."""
        try:
            self.side(self._heads[0], 0)("vjp", self._heads[0].arguments("vjp"))
        except REFUSALS:
            self.errors.clear()
            return False
        return True

    def side(self, case: Case, number: int) -> Side:
        """The values and the VJP of a case that has the constants of a head, but for arrays, in the place of it."""
        cases = [case if i == number else head for i, head in enumerate(self._heads)]
        constants = [{key: as_torch(value) for key, value in each.call.arguments.items()} for each in cases]

        def function(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            of_heads = [leaves_of(tensors_of(list(each.inputs.values()))) for each in cases]
            return self._call(constants, [*of_heads[:number], inputs, *of_heads[number + 1 :]])[number]

        candidate = Candidate(function, case.entry.name)

        def side(mode: str, arguments: Sequence[Any]) -> Arrays:
            tensors, count = tensors_of(arguments), len(case.inputs)
            with self._watched(case, "forward", arguments):
                # The leaves need gradients even if only values are asked for, or another graph would be compiled
                graph = candidate.record(tensors[:count])
            if mode == "forward":
                return [_array(y, None) for y in graph.outputs]
            with self._watched(case, "vjp", arguments):
                found = graph.vjp(tensors[count:])
            return [_array(y, x) for y, x in zip(found, tensors, strict=False)]

        return side

    @contextlib.contextmanager
    def _watched(self, case: Case, mode: str, arguments: Sequence[Any]) -> Iterator[None]:
        from torch._inductor import metrics

        before = metrics.generated_kernel_count
        try:
            yield
        except REFUSALS as error:
            count = len(case.inputs) if mode == "forward" else None
            with contextlib.suppress(*REFUSALS):
                case.in_pytorch(mode, arguments[:count])
                self.errors.append(shortened(error))
            raise
        self.generated.setdefault(mode, metrics.generated_kernel_count > before)


def _array(y: torch.Tensor | None, like: torch.Tensor | None) -> np.ndarray:
    if y is None or y._is_zerotensor():
        return torch.zeros_like(like).numpy()  # pyright: ignore[reportArgumentType] (a value is never missing)
    return y.detach().resolve_conj().resolve_neg().numpy().copy()


def judge_compiled(
    cases: Sequence[Case],
    special: Special,
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
    cases = [case for case in cases if not case.may_draw]
    notes: dict[str, set[str]] = {name: set() for name in tallies}
    for unit in _units(cases, special) if cases else ():
        with _compiler():
            try:
                _judge_unit(unit, own, tallies, notes, compile)
            except REFUSALS as error:
                for tally in tallies.values():
                    tally.refused(shortened(error))
    for name, tally in tallies.items():
        if not cases:
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
            with _compiler():
                _judge_unit(each, own, tallies, notes, compile)
        return
    as_eager = set[str]()
    for number, head in enumerate(unit.heads):
        whole = CompiledComparison.of(head, code.side(head, number), own(head))
        for case in (head, *unit.points.get(number, ())):
            comparison = whole if case is head else whole.at(case, code.side(case, number))
            _judge_case(replace(comparison, as_eager=as_eager), tallies)
            if "vjp" not in code.generated:  # it would be compiled again for each case, and fail again
                break
    _note(unit, code, as_eager, notes)


def _judge_case(comparison: CompiledComparison, tallies: Mapping[str, Tally]) -> None:
    case = comparison.case
    try:
        comparison.judge_values(tallies)
    except REFUSALS as error:
        for name in {*map(plain, case.results)} & {*tallies}:
            tallies[name].refused(shortened(error))
    inputs = {*map(plain, case.inputs)}
    comparison.judge(["vjp"], {("vjp", name): tally for name, tally in tallies.items() if name in inputs})


def _note(unit: Unit, code: Code, as_eager: set[str], notes: Mapping[str, set[str]]) -> None:
    for name in as_eager & {*notes}:
        notes[name].add(AS_EAGER)
    first = unit.heads[0]
    for mode, names in (("forward", first.results), ("vjp", first.inputs)):
        for name in {*map(plain, names)} & {*notes}:
            if mode in code.generated and not unit.dynamic:  # for all sizes both are compiled at once
                notes[name].add(GENERATED if code.generated[mode] else KERNELS_ONLY)
            notes[name].update(f"{RAISES} {error}" for error in code.errors[:1])


@contextlib.contextmanager
def _compiler() -> Iterator[None]:
    """Compile anew, in this process, and leave the settings as they were.

    What was compiled before is found by the text of the code only, and not by that of the operator.
    """
    import torch._dynamo
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    one_process = {"compile_threads": 1, "fx_graph_cache": False}
    with (
        torch._inductor.config.patch(one_process),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        try:
            yield
        finally:
            torch._dynamo.reset()


def _units(cases: Sequence[Case], special: Special) -> Iterator[Unit]:
    """The graphs that are compiled: of a few calls, and one for all sizes; special points cost no further one."""
    first, points = cases[0], list(special(cases[0]))
    alike = [case for case in points if _shapes(case) == _shapes(first)]
    if points and not alike:  # entry by entry: the special points are a vector, and there are vectors with NaN
        yield Unit([first, points[0], *_others(cases)])
        short = {_shapes(case): case for case in points[1:] if min(np.shape(x)[0] for x in case.inputs.values()) > 1}
        yield Unit(points[:1], {0: list(short.values())[-_SIZES:]}, dynamic=True)
    else:
        yield Unit([first, *_others(cases)], {0: alike})
        yield Unit([first], {0: list(_smaller(first))}, dynamic=True)


def _others(cases: Sequence[Case]) -> list[Case]:
    """A few calls beside the first one: those with other options first."""
    seen = {_options(cases[0])}
    new = [case for case in cases[1:] if _options(case) not in seen and not seen.add(_options(case))]
    rest = [case for case in cases[1:] if case not in new]
    return [*new, *rest][:_OTHERS]


def _options(case: Case) -> str:
    return repr([value for value in case.call.arguments.values() if not arrays_of(value)])


def _shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return tuple(np.shape(x) for x in arrays_of(list(case.call.arguments.values())))


def _smaller(case: Case) -> Iterator[Case]:
    """The case where all axes of one length have one entry less, but no fewer than two."""
    moving = arrays_of(list(case.call.arguments.values()))
    if case.call.is_internal or any(x.dtype.kind in "iu" for x in moving):
        return  # indices may lie beyond, and internal operators trust their callers to have checked the shapes
    lengths = sorted({n for x in case.inputs.values() for n in x.shape if n > 2}, reverse=True)
    for length in lengths[:_SIZES]:
        arguments = {key: _cut(value, length) for key, value in case.call.arguments.items()}
        results = results_of(case.call.name, arguments)
        call = None if results is None else replace(case.call, arguments=arguments, results=results)
        smaller = case_of(case.entry, call) if call is not None and has_derivative(call) else None
        if smaller is not None:
            yield smaller


def _cut(value: Any, length: int) -> Any:
    if isinstance(value, list):
        return [_cut(each, length) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    return value[tuple(slice(n - 1 if n == length else None) for n in value.shape)].copy()
