"""Candidates that are formulas on NumPy arrays: a value, and a hand-written VJP and JVP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import torch

from parity_tests.harness.candidates.array_programs import Recording
from parity_tests.harness.candidates.base import AnyCandidate, MaybeTensors, Tensors
from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.own_arrays import Writes
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused
from parity_tests.harness.numbers.contracts import Arithmetic, check_arithmetic


class ArrayCandidate(AnyCandidate):
    """Formulas on NumPy arrays to be judged.

    They get arrays in the format that is judged, of every input, in the order of the spec. NumPy has no bfloat16: there
    they get float32, and each result is rounded once.

    Args:
        forward: (inputs..., **params) -> array or tuple of arrays.
        vjp: (inputs..., cotangents..., **params) -> the gradients of the differentiated inputs, as an array or a tuple;
            None is a zero. A cotangent that is absent is an array of zeros. Complex gradients are by PyTorch's
            convention, the conjugate of JAX's. None: it has no VJP.
        jvp: (inputs..., tangents..., **params) -> the tangents of the outputs. None: it has no JVP.
        name: its name in reports; by default that of `forward`.
        limits: the checks that it is known to fail, each with the reason.
        arithmetic: what it rounds in the 16-bit formats, if that is to be held against it; see `Arithmetic`.

    Raises:
        TypeError: a formula is no function, or `arithmetic` is no `Arithmetic`.
    """

    framework = "NumPy"

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
                raise TypeError(f"ArrayCandidate: {what} must be a function of arrays, got {type(formula).__name__}")
        check_arithmetic(f"ArrayCandidate {name}".rstrip(), arithmetic)
        self.formulas, self.name, self.limits, self.arithmetic = (forward, vjp, jvp), name, limits, arithmetic
        self.constants: Mapping[int, torch.Tensor | None] = {}
        self.params: Mapping[str, object] = {}
        self.returns: Outputs | None = None
        self.arranged: Callable[[Sequence], Sequence] | None = None
        self.absent: frozenset[int] = frozenset()
        self.writes: Writes | None = None
        self.recording: Recording | None = None

    def __reduce__(self) -> tuple:
        """Pickle the candidate by reference to its author's functions; see `isolation.by_name`."""
        return ArrayCandidate, (*self.formulas, self.name, self.limits, self.arithmetic)

    @property
    def source(self) -> Callable:
        """The function that the author wrote."""
        return self.formulas[0]

    def named(
        self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None
    ) -> ArrayCandidate:
        """Return the same candidate under this name, with these limits, and this arithmetic if it is given."""
        return ArrayCandidate(*self.formulas, name, limits, arithmetic or self.arithmetic)

    def bound(
        self,
        constants: Mapping[int, torch.Tensor | None],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> ArrayCandidate:
        """Return the candidate as a function of the differentiated inputs alone; see `AnyCandidate.bound`."""
        candidate = self.named(self.name, self.limits)
        candidate.constants, candidate.params = constants, params
        candidate.returns = self.returns if returns is None or returns.is_plain else returns
        candidate.arranged, candidate.absent = arranged or self.arranged, self.absent
        candidate.writes, candidate.recording = self.writes, self.recording
        return candidate

    def with_constants(self, constants: Mapping[int, torch.Tensor | None]) -> ArrayCandidate:
        """Return the same candidate, bound to these constants."""
        return self.bound(constants, self.params)

    def without(self, inputs: Collection[int]) -> ArrayCandidate:
        """Return the candidate where these inputs are absent, with None for their tangents and gradients."""
        candidate = self.bound(self.constants, self.params)
        candidate.absent = frozenset(inputs)
        return candidate

    def watching(self, writes: Writes) -> ArrayCandidate:
        """Return the same candidate, which notes in `writes` the arrays that a formula writes to."""
        candidate = self.bound(self.constants, self.params)
        candidate.writes = writes
        return candidate

    def recorded(self, recording: Recording) -> ArrayCandidate:
        """Return the same candidate, the next call of which is noted in `recording`."""
        candidate = self.bound(self.constants, self.params)
        candidate.recording = recording
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
        return tuple(_tensor(y, args) for y in _as_tuple(outputs))

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
        gradients, absent = _as_tuple(self._called(formula, primals, cotangents)), self._of_absent(len(primals))
        if len(gradients) != len(absent):
            raise BadOutput(f"its vjp returned {len(gradients)} gradients, expected {len(absent)}")
        gradients = tuple(g for g, flag in zip(gradients, absent, strict=True) if not flag)
        wanted = [True] * len(primals) if requires_grad is None else requires_grad
        return tuple(
            _tensor(g, primals) if flag and g is not None else None for g, flag in zip(gradients, wanted, strict=True)
        )

    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> MaybeTensors:
        """Return the tangents of the outputs."""
        formula = self.formulas[2]
        if formula is None:
            self._refuse("forward mode")
        given = iter(tangents)
        directions = [None if flag else next(given) for flag in self._of_absent(len(primals))]
        results = _as_tuple(self._called(formula, primals, directions))
        return tuple(None if y is None else _tensor(y, primals) for y in results)

    def _called(self, formula: Callable, primals: Sequence[torch.Tensor], directions: Sequence) -> object:
        """Call a formula with all inputs, bound constants included, and the cotangents or tangents."""
        given_as = (lambda x: x) if self.recording is None else self.recording.given
        arrays = [given_as(_array(x)) for x in primals]
        for i in sorted(self.constants):
            constant = self.constants[i]
            arrays.insert(i, None if constant is None else _array(constant))
        arguments = arrays if self.arranged is None else self.arranged(arrays)
        given = [None if d is None else given_as(_array(d)) for d in directions]
        compare = None if self.writes is None else self.writes.watch(arrays, given)
        with np.errstate(all="ignore"):  # PyTorch and JAX do not warn of an infinity either
            results = formula(*arguments, *given, **self.params)
        if compare is not None:
            compare()
        return results if self.recording is None else self.recording.returned(_as_tuple(results))


def _array(x: torch.Tensor) -> np.ndarray:
    """Return a new array with a tensor's values, in its format; float32 for bfloat16, which NumPy does not have."""
    if x.device.type != "cpu":
        raise Refused("NumPy computes on the CPU", Reason.OUT_OF_REACH)
    x = x.detach().resolve_conj().resolve_neg()
    return (x.float() if x.dtype is torch.bfloat16 else x).numpy().copy()


def _tensor(y: object, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a tensor in the array's own format, or in bfloat16 where the inputs are of that format."""
    if not isinstance(y, np.ndarray | np.generic):
        raise BadOutput(f"returned {type(y).__name__} where an array, or a tuple of arrays, is expected")
    if isinstance(y, np.ma.MaskedArray):
        hidden = int(np.ma.count_masked(y))
        raise BadOutput(f"returned a masked array, {hidden} of {y.size} entries masked; return y.filled(value) instead")
    tensor = torch.from_numpy(np.array(y, order="C"))
    judged_in_bfloat16 = any(x.dtype is torch.bfloat16 for x in inputs)
    return tensor.bfloat16() if judged_in_bfloat16 and tensor.dtype is torch.float32 else tensor


def _as_tuple(results: object) -> tuple:
    return tuple(results) if isinstance(results, tuple | list) else (results,)
