"""The base class of candidates that are formulas on arrays: a value, and a hand-written VJP and JVP."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import torch

from parity_tests.harness.candidates.base import AnyCandidate, MaybeTensors, Tensors
from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.own_arrays import Writes
from parity_tests.harness.candidates.torch_refusals import BadOutput
from parity_tests.harness.numbers.contracts import Arithmetic, check_arithmetic


class FormulaCandidate(AnyCandidate):
    """A subclass makes the arrays that its formulas are given, and tensors of those that they return.

    Its arguments are those of `ArrayCandidate`.

    Raises:
        TypeError: a formula is no function, or `arithmetic` is no `Arithmetic`.
    """

    def __init__(
        self,
        forward: Callable,
        vjp: Callable | None = None,
        jvp: Callable | None = None,
        name: str = "",
        limits: Mapping[str, str] | None = None,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        for what, formula in (("forward", forward), ("vjp", vjp), ("jvp", jvp)):
            if not callable(formula) and (formula is not None or what == "forward"):
                kind, got = type(self).__name__, type(formula).__name__
                raise TypeError(f"{kind}: {what} must be a function of arrays, got {got}")
        check_arithmetic(f"{type(self).__name__} {name}".rstrip(), arithmetic)
        self.formulas, self.name, self.limits, self.arithmetic = (forward, vjp, jvp), name, limits, arithmetic
        self.constants: Mapping[int, torch.Tensor | None] = {}
        self.params: Mapping[str, object] = {}
        self.returns: Outputs | None = None
        self.arranged: Callable[[Sequence], Sequence] | None = None
        self.absent: frozenset[int] = frozenset()
        self.writes: Writes | None = None

    def __reduce__(self) -> tuple:
        """Pickle the candidate by reference to its author's functions; see `isolation.by_name`."""
        return type(self), (*self.formulas, self.name, self.limits, self.arithmetic)

    @property
    def source(self) -> Callable:
        """The function that the author wrote."""
        return self.formulas[0]

    def named(self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None) -> Self:
        """Return the same candidate under this name, with these limits, and this arithmetic if it is given."""
        return type(self)(*self.formulas, name, limits, arithmetic or self.arithmetic)

    def bound(
        self,
        constants: Mapping[int, torch.Tensor | None],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> Self:
        """Return the candidate as a function of the differentiated inputs alone; see `AnyCandidate.bound`."""
        candidate = copy.copy(self)
        candidate.constants, candidate.params = constants, params
        candidate.returns = self.returns if returns is None or returns.is_plain else returns
        candidate.arranged = arranged or self.arranged
        return candidate

    def with_constants(self, constants: Mapping[int, torch.Tensor | None]) -> Self:
        """Return the same candidate, bound to these constants."""
        return self.bound(constants, self.params)

    def without(self, inputs: Collection[int]) -> Self:
        """Return the candidate where these inputs are absent, with None for their tangents and gradients."""
        candidate = self.bound(self.constants, self.params)
        candidate.absent = frozenset(inputs)
        return candidate

    def watching(self, writes: Writes) -> Self:
        """Return the same candidate, which notes in `writes` the arrays that a formula writes to."""
        candidate = self.bound(self.constants, self.params)
        candidate.writes = writes
        return candidate

    def _of_absent(self, count: int) -> list[bool]:
        """For each input that would be differentiated if none were absent: True if it is. `count`: of the others."""
        every = range(count + len(self.constants))
        return [i in self.absent for i in every if i not in self.constants or i in self.absent]

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return the outputs that are differentiable."""
        outputs = self.every_output(args)
        return outputs if self.returns is None else self.returns.real(outputs)

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return all outputs, integers included."""
        outputs = self._called(self.formulas[0], args, ())
        if self.returns is not None:
            outputs = self.returns.arranged(outputs)
        return tuple(self._tensor(y, args) for y in as_tuple(outputs))

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Return the gradients of the inputs that need one, by the formula for all inputs."""
        formula = self.formulas[1]
        if formula is None:
            self._refuse("reverse mode")
        if any(w is None for w in cotangents):
            outputs = self.forward(primals)
            pairs = zip(cotangents, outputs, strict=True)
            cotangents = [torch.zeros_like(y) if w is None else w for w, y in pairs]
        gradients, absent = as_tuple(self._called(formula, primals, cotangents)), self._of_absent(len(primals))
        if len(gradients) != len(absent):
            raise BadOutput(f"its vjp returned {len(gradients)} gradients, expected {len(absent)}")
        gradients = tuple(g for g, flag in zip(gradients, absent, strict=True) if not flag)
        wanted = [True] * len(primals) if requires_grad is None else requires_grad
        return tuple(
            self._tensor(g, primals) if flag and g is not None else None
            for g, flag in zip(gradients, wanted, strict=True)
        )

    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> MaybeTensors:
        """Return the tangents of the outputs."""
        formula = self.formulas[2]
        if formula is None:
            self._refuse("forward mode")
        given = iter(tangents)
        directions = [None if flag else next(given) for flag in self._of_absent(len(primals))]
        results = as_tuple(self._called(formula, primals, directions))
        return tuple(None if y is None else self._tensor(y, primals) for y in results)

    @abstractmethod
    def _array(self, x: torch.Tensor) -> Any:
        """Return a new array with a tensor's values.

        Raises:
            Refused: there are no such arrays of the tensor's device or dtype.
        """

    @abstractmethod
    def _tensor(self, y: object, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a tensor with the values that a formula has returned for these inputs.

        Raises:
            BadOutput: it is no array.
        """

    @staticmethod
    @abstractmethod
    def _read(x: Any) -> bytes:
        """Return a copy of an array's numbers."""

    def _given(self, x: torch.Tensor) -> Any:
        """Return the array of a differentiated input, a cotangent or a tangent."""
        return self._array(x)

    def _results(self, formula: Callable, arguments: Sequence) -> object:
        """Return the results of a formula at these arrays."""
        return formula(*arguments, **self.params)

    def _called(self, formula: Callable, primals: Sequence[torch.Tensor], directions: Sequence) -> object:
        """Call a formula with all inputs, bound constants included, and the cotangents or tangents."""
        arrays = [self._given(x) for x in primals]
        for i in sorted(self.constants):
            constant = self.constants[i]
            arrays.insert(i, None if constant is None else self._array(constant))
        arguments = arrays if self.arranged is None else self.arranged(arrays)
        given = [None if d is None else self._given(d) for d in directions]
        compare = None if self.writes is None else self.writes.watch(arrays, given, self._read)
        results = self._results(formula, [*arguments, *given])
        if compare is not None:
            compare()
        return results


def as_tuple(results: object) -> tuple:
    """Return what a formula has returned as a tuple."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)
