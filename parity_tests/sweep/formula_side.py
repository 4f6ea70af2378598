"""The derivatives of a case by the text of an entry's formulas, as it stands or changed; nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

from parity_tests.sweep.cases import Arrays, Case, Side, tensors_of
from parity_tests.sweep.domains import projections
from parity_tests.sweep.elementwise import results_of
from parity_tests.sweep.recorded_calls import as_torch
from parity_tests.sweep.torch_invariants import TORCH_INVARIANTS
from torch_impl import derivatives
from torch_impl.derivatives import Entry

Tensors = Sequence[torch.Tensor | None]


def side_of(entry: Entry, case: Case) -> Side:
    """Return the values, VJP and JVP of a case, the derivatives by an entry's formulas.

    The values and what formulas see of them are PyTorch's. Where a case is the operator after a projection, or what
    does not depend on signs and orders of vectors (see `domains` and `invariants`), the derivatives of these are
    PyTorch's, too.

    Raises, when it is called:
        NotEvaluable, EvaluationError: a formula cannot be evaluated, or gives something that is no derivative.
    """
    return Formulas(case).side(entry)


class Formulas:
    """Derivatives of a case by formulas, for entries that differ in these only; see `side_of`."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._projections = projections(case.entry.name, case.call.arguments)
        given = {key: as_torch(value) for key, value in case.call.arguments.items()}
        given |= {name: project(given[name]) for name, project in self._projections.items()}
        self._arguments = derivatives.bind(case.entry, (), given)
        self._invariants = TORCH_INVARIANTS.get(case.call.name)
        self._results: list[Any] = self._returned(given)

    def _returned(self, given: Mapping[str, Any]) -> list[Any]:
        """The operator's results, one for each return of the schema; recomputed where invariants are compared."""
        if self._invariants is not None:
            return [as_torch(y) for y in results_of(self._case.call.name, given) or ()]
        flat = [as_torch(y) for y in self._case.call.results]
        return flat if self._has_several else [flat if self._returns_list else flat[0]]

    @property
    def _has_several(self) -> bool:
        return len(self._case.entry.result_names) > 1

    @property
    def _returns_list(self) -> bool:
        return any("[" in name for name in self._case.results) and self._invariants is None

    def side(self, entry: Entry) -> Side:
        """Return the values, VJP and JVP by the formulas of an entry of the case's operator."""
        case = self._case

        def side(mode: str, arguments: Sequence[np.ndarray]) -> Arrays:
            tensors = tensors_of(arguments[len(case.inputs) :])
            if mode == "forward":
                return [case.call.results[i] for i in case.results.values()]
            if mode == "vjp":
                return self._vjp(entry, dict(zip(case.results.values(), tensors, strict=True)))
            return self._jvp(entry, dict(zip(case.inputs, tensors, strict=True)))

        return side

    def _vjp(self, entry: Entry, bars: dict[int, torch.Tensor]) -> Arrays:
        if self._invariants is not None:
            cotangents: list[Any] = [*self._bars_of_invariants(list(bars.values()))]
        else:
            flat = [bars.get(i) for i in range(len(self._case.call.results))]
            cotangents = [flat] if self._returns_list else flat
        inputs = self._case.inputs
        wanted = {name.partition("[")[0] for name in inputs}
        found = derivatives.vjp(entry, self._arguments, self._results, cotangents, wanted)
        return [_array(self._before_projection(name, _item(found, name)), x) for name, x in inputs.items()]

    def _jvp(self, entry: Entry, given: Mapping[str, torch.Tensor]) -> Arrays:
        dots: dict[str, Any] = dict(given)
        dots |= {name: self._projected(name, dots[name]) for name in self._projections if name in dots}
        plain = {name.partition("[")[0] for name in dots}
        tangents = {
            name: dots[name] if name in dots else [dots[x] for x in dots if x.startswith(f"{name}[")] for name in plain
        }
        found = derivatives.jvp(entry, self._arguments, self._results, tangents)
        case = self._case
        if self._invariants is not None:
            of_each = self._dots_of_invariants([found.get(name) for name in entry.result_names])
            return [_array(of_each[i], case.call.results[i]) for i in case.results.values()]
        return [_array(_item(found, name), case.call.results[i]) for name, i in case.results.items()]

    def _before_projection(self, name: str, bar: torch.Tensor | None) -> torch.Tensor | None:
        """The cotangent of an input, of that of what the operator was given."""
        if bar is None or name not in self._projections:
            return bar
        x = as_torch(self._case.inputs[name]).requires_grad_()
        return torch.autograd.grad(self._projections[name](x), x, bar)[0]

    def _projected(self, name: str, dot: torch.Tensor) -> torch.Tensor | None:
        """The tangent of what the operator is given, of that of an input."""
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(as_torch(self._case.inputs[name]), dot)
            return forward_ad.unpack_dual(self._projections[name](dual)).tangent

    def _bars_of_invariants(self, bars: Tensors) -> Tensors:
        """The cotangents of the results, of those of the invariants."""
        results = [y.detach().requires_grad_() for y in self._results]
        return torch.autograd.grad(self._of(results), results, bars, allow_unused=True)

    def _dots_of_invariants(self, dots: Sequence[Any]) -> Tensors:
        """The tangents of the invariants, of those of the results."""
        with forward_ad.dual_level():
            pairs = zip(self._results, dots, strict=True)
            duals = [y if y_dot is None else forward_ad.make_dual(y.detach(), y_dot) for y, y_dot in pairs]
            return [forward_ad.unpack_dual(y).tangent for y in self._of(duals)]

    def _of(self, results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        invariants: Callable[..., Sequence[torch.Tensor]] = TORCH_INVARIANTS[self._case.call.name]
        return invariants(self._arguments, *results)


def _item(found: Any, name: str) -> torch.Tensor | None:
    plain, bracket, index = name.partition("[")
    of = found.get(plain)
    return of if not bracket or of is None else of[int(index.removesuffix("]"))]


def _array(x: torch.Tensor | None, like: np.ndarray) -> np.ndarray:
    return np.zeros_like(like) if x is None else x.detach().resolve_conj().resolve_neg().numpy()
