"""Graphs that `torch.compile` makes of an operator's calls, and the code that comes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_leaves import leaves_of
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.sweep.calls import arrays_of
from parity_tests.sweep.cases import Arrays, Case, Side, case_of, tensors_of
from parity_tests.sweep.compared_case import REFUSALS, shortened
from parity_tests.sweep.domains import has_derivative
from parity_tests.sweep.elementwise import results_of
from parity_tests.sweep.recorded_calls import as_torch

_OTHERS = 1  # calls beside the first one that are compiled
_SCALES = (2.0**-20, 2.0**20)  # of the inputs: where a formula of the compiler's own loses digits, or overflows
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
        """Return whether it compiles, and has values and gradients at the first of its cases; no error is noted."""
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
                if "Unsupported" not in described(error):  # which says that there is nothing to judge
                    self.errors.append(described(error))
            raise
        self.generated.setdefault(mode, metrics.generated_kernel_count > before)


def described(error: BaseException) -> str:
    """Return the first line of an error, with its type; of one that a backend raised, that of its cause."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(error, Refused) and isinstance(error.__cause__, RuntimeError):
        return described(error.__cause__)
    return described(inner) if isinstance(inner, Exception) else shortened(error)


def _array(y: torch.Tensor | None, like: torch.Tensor | None) -> np.ndarray:
    if y is None or y._is_zerotensor():
        return torch.zeros_like(like).numpy()  # pyright: ignore[reportArgumentType] (a value is never missing)
    return y.detach().resolve_conj().resolve_neg().numpy().copy()


@contextlib.contextmanager
def compiler() -> Iterator[None]:
    """Compile anew, in this process, and leave the settings as they were.

    What was compiled before is found by the text of the code only, and not by that of the operator.
    """
    import torch._dynamo
    import torch._functorch.config
    import torch._inductor.config

    torch._dynamo.reset()
    anew = torch._functorch.config.patch(enable_autograd_cache=False)
    with torch._inductor.config.patch(compile_threads=1, fx_graph_cache=False), anew:
        try:
            yield
        finally:
            torch._dynamo.reset()


def units(cases: Sequence[Case], special: Special) -> Iterator[Unit]:
    """The graphs that are compiled: of a few calls, and one for all sizes; special points cost no further one."""
    first, points = cases[0], list(special(cases[0]))
    alike = [case for case in points if _shapes(case) == _shapes(first)]
    if points and not alike:  # entry by entry: the special points are a vector, and there are vectors with NaN
        yield Unit([first, points[0], *_others(cases)], {0: list(_scaled(first))})
        short = {_shapes(case): case for case in points[1:] if all(x.shape > (1,) for x in case.inputs.values())}
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


def _scaled(case: Case) -> Iterator[Case]:
    for scale in _SCALES:
        other = case.at([np.asarray(x * scale) for x in case.inputs.values()])  # of no axes a number comes
        if has_derivative(other.call):
            yield other


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
