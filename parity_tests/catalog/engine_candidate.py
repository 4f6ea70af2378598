"""The functions of derivation/engine.py as candidates: the engine's own derivatives, on tensors.

A third witness: neither PyTorch nor JAX takes part in what it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from derivation.engine import Variable, pull, push
from parity_tests.harness.candidates.base import MaybeTensors, Tensors
from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.own_arrays import Writes
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.candidates.transformed import TransformedCandidate
from parity_tests.harness.numbers.contracts import Arithmetic

Variables = Sequence[Variable | None]
NO_GPU = "derivation/engine.py is in NumPy, which computes on the CPU"
quiet = np.errstate(all="ignore")  # of infinities PyTorch and JAX say nothing either; a decorator


@dataclass(frozen=True)
class EngineCandidate(TransformedCandidate):
    """A function of the engine's variables to be judged.

    Attributes:
        call: the function: (variables...) -> tuple of variables.
        name: its name in reports.
        limits: the checks that it is known to fail, each with the reason; `None`: what the engine does not have.
        arithmetic: what it rounds in the 16-bit formats, if that is to be held against it; see `Arithmetic`.
    """

    call: Callable[..., Variables]
    name: str
    limits: Mapping[str, str] | None = None
    arithmetic: Arithmetic | None = None
    writes: Writes | None = field(default=None, repr=False)

    framework = "NumPy"

    @property
    def source(self) -> Callable:
        """The function as its author wrote it."""
        return self.call

    def named(
        self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None
    ) -> EngineCandidate:
        """The same under this name, with these limits, and this arithmetic if it is given."""
        return EngineCandidate(self.call, name, limits, arithmetic or self.arithmetic)

    def bound(
        self,
        constants: Mapping[int, torch.Tensor],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> EngineCandidate:
        """The same, for an operator that has neither, and returns tensors; `arranged` does nothing to what it takes."""
        if constants or params or (returns is not None and not returns.is_plain):
            raise TypeError(f"{self.name}: the engine's functions take variables only")
        return self

    def watching(self, writes: Writes) -> EngineCandidate:
        """The same, which notes in `writes` the arrays that a formula of the engine writes to."""
        return replace(self, writes=writes)

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """The outputs, as a tuple."""
        return self.record(args).outputs

    @quiet
    def record(self, primals: Sequence[torch.Tensor], requires_grad: Sequence[bool] | None = None) -> Graph:
        """The forward alone; the engine always records."""
        variables = [_variable(x) for x in primals]
        flags = [True] * len(primals) if requires_grad is None else requires_grad
        compare = _watched(self.writes, variables, ())
        results = self.call(*variables)
        compare()
        return Graph(primals, variables, results, flags, self.writes)

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Reverse mode; `requires_grad`: of which inputs."""
        return self.record(primals, requires_grad).vjp(cotangents)

    def vjp_undefined(self, primals: Sequence[torch.Tensor]) -> MaybeTensors:
        """Reverse mode when every cotangent is absent."""
        graph = self.record(primals)
        return graph.vjp([None] * len(graph.results))

    @quiet
    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> MaybeTensors:
        """Forward mode."""
        given = [[_variable(x) for x in each] for each in (primals, tangents)]
        compare = _watched(self.writes, *given)
        results = self._jvp(self.call, len(primals))(*given[0], *given[1])
        compare()
        return tuple(_maybe_tensor(y, primals[0].dtype) for y in results)

    def _outputs(self, *args: Variable) -> Variables:
        return self.call(*args)

    @quiet
    def _evaluated(self, f: Callable[..., Variables], args: Sequence[torch.Tensor]) -> MaybeTensors:
        return tuple(_maybe_tensor(y, args[0].dtype) for y in f(*map(_variable, args)))

    @staticmethod
    def _vjp(f: Callable[..., Variables], count: int) -> Callable[..., Variables]:
        return lambda *args: pull(f(*args[:count]), args[:count], args[count:])

    @staticmethod
    def _jvp(f: Callable[..., Variables], count: int) -> Callable[..., Variables]:
        return lambda *args: push(f(*args[:count]), args[:count], args[count:])


@dataclass(frozen=True)
class Graph:
    """A call, on tensors and on variables; `flags`: with respect to which of the inputs it is pulled back."""

    inputs: Sequence[torch.Tensor]
    variables: Sequence[Variable]
    results: Variables
    flags: Sequence[bool]
    writes: Writes | None = None

    @property
    def outputs(self) -> Tensors:
        """The results, as tensors."""
        return tuple(_tensor(y, self.inputs[0].dtype) for y in self.results if y is not None)

    @quiet
    def vjp(self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False) -> MaybeTensors:
        """The gradients, as often as one likes."""
        wanted = [x for x, flag in zip(self.variables, self.flags, strict=True) if flag]
        given = [None if w is None else _variable(w) for w in cotangents]
        compare = _watched(self.writes, self.variables, given)
        gradients = iter(pull(self.results, wanted, given))
        compare()
        dtype = self.inputs[0].dtype
        return tuple(_maybe_tensor(next(gradients), dtype) if flag else None for flag in self.flags)


def _watched(writes: Writes | None, inputs: Variables, directions: Variables) -> Callable[[], None]:
    """A function that notes which of these arrays have changed since, if anybody wants to know."""
    if writes is None:
        return lambda: None
    values, others = ([None if x is None else x.value for x in each] for each in (inputs, directions))
    return writes.watch(values, others)


def _variable(x: torch.Tensor) -> Variable:
    """NumPy has no bfloat16: what is given in it is computed in float32, and rounded once."""
    if x.device.type != "cpu":
        raise Refused(NO_GPU, Reason.OUT_OF_REACH)
    return Variable((x.float() if x.dtype is torch.bfloat16 else x).detach().numpy().copy())


def _tensor(x: Variable, dtype: torch.dtype) -> torch.Tensor:
    """The value as a tensor: of bfloat16 if the engine computed it in float32 for that, else of the engine's dtype."""
    tensor = torch.from_numpy(np.array(x.value, order="C"))
    return tensor.bfloat16() if dtype is torch.bfloat16 and tensor.dtype is torch.float32 else tensor


def _maybe_tensor(x: Variable | None, dtype: torch.dtype) -> torch.Tensor | None:
    return None if x is None else _tensor(x, dtype)
