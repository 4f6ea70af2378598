"""Candidates in NVIDIA Warp: functions that launch kernels, and the adjoints that `wp.Tape` makes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from parity_tests.harness.candidates.base import MaybeTensors, Tensors
from parity_tests.harness.candidates.bound import BoundCandidate
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused

try:
    import warp as wp
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("WarpCandidate needs NVIDIA Warp: pip install 'gradparity[warp]'") from error

_MOST_AXES = 4  # the limit of a wp.array
_ONE_TAPE = threading.Lock()  # a tape records what any thread of the process launches


@dataclass(frozen=True)
class WarpCandidate(BoundCandidate):
    """A function of Warp arrays to be judged, with the VJP that `wp.Tape` records of it.

    Needs `pip install 'gradparity[warp]'`. Warp has no forward mode, no second order and no vmap: these are refused.

    Attributes:
        call: (inputs..., **params) -> array or tuple of arrays, made with `requires_grad=True`. The inputs are
            `wp.array`s in the dtype that is judged, on its device; kernels that take `dtype=Any` run in all of them.
        name: its name in reports; by default that of `call`.
        limits: the checks that it is known to fail, each with the reason.
        arithmetic: what it rounds in the 16-bit dtypes, if that is to be held against it; see `Arithmetic`.
    """

    framework = "Warp"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.call) or isinstance(self.call, wp.Kernel):
            kind = type(self.call).__name__
            raise TypeError(f"WarpCandidate: needs a function that launches kernels and returns arrays, got {kind}")

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return all outputs, integers included."""
        with _ONE_TAPE:
            return tuple(_tensor(y) for y in self._called([_array(x) for x in args]))

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Return the gradients, by a tape; an absent cotangent is not given to the tape."""
        flags = [True] * len(primals) if requires_grad is None else requires_grad
        arrays = [_array(x, flag) for x, flag in zip(primals, flags, strict=True)]
        with _ONE_TAPE, wp.Tape() as tape:
            outputs = self._called(arrays)
        real = outputs if self.returns is None else self.returns.real(outputs)
        if len(real) != len(cotangents):
            raise BadOutput(f"returned {len(real)} outputs, expected {len(cotangents)}")
        given = {y: _array(w) for y, w in zip(real, cotangents, strict=True) if w is not None}
        if not all(y.requires_grad for y in given):
            raise BadOutput("returned an array without requires_grad=True, through which a tape goes no further")
        compare = self._watched(self._with_gaps(arrays))
        with _ONE_TAPE:
            tape.backward(grads=given)
        compare()
        return tuple(None if x.grad is None else _tensor(x.grad) for x in arrays)

    def _watched(self, inputs: Sequence[wp.array | None]) -> Callable[[], None]:
        """Return a function that notes which of the inputs have changed since, if anybody wants to know."""
        return (lambda: None) if self.writes is None else self.writes.watch(inputs, (), _bytes)

    def _called(self, arrays: Sequence[wp.array]) -> tuple[wp.array, ...]:
        """Call the function with these inputs and the bound constants."""
        inputs = self._with_gaps(arrays)
        for i, x in self.constants.items():
            inputs[i] = None if x is None else _array(x)
        compare = self._watched(inputs)
        outputs = self.call(*(inputs if self.arranged is None else self.arranged(inputs)), **self.params)
        compare()
        if self.returns is not None:
            outputs = self.returns.arranged(outputs)
        outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        for y in outputs:
            if not isinstance(y, wp.array):
                raise BadOutput(f"returned {type(y).__name__} where a wp.array, or a tuple of them, is expected")
        return outputs


def _array(x: torch.Tensor, requires_grad: bool = False) -> wp.array:
    """Return a Warp array with a copy of a tensor's values, in its format, on its device."""
    if not 1 <= x.ndim <= _MOST_AXES:
        raise Refused(f"a wp.array has from 1 to {_MOST_AXES} axes, and an input has {x.ndim}", Reason.OUT_OF_REACH)
    if x.is_complex():
        raise Refused("Warp has no complex numbers", Reason.OUT_OF_REACH)
    wp.init()  # has an effect at the first call only
    try:
        wp.device_from_torch(x.device)
    except RuntimeError as error:
        raise Refused(f"Warp does not run on {x.device.type}", Reason.OUT_OF_REACH) from error
    own = x.detach().resolve_neg().clone(memory_format=torch.contiguous_format)
    return wp.from_torch(own, requires_grad=requires_grad)


def _bytes(x: wp.array) -> bytes:
    """Return a copy of an array's numbers."""
    return _tensor(x).cpu().contiguous().view(torch.uint8).numpy().tobytes()


def _tensor(y: wp.array) -> torch.Tensor:
    """Return a tensor with a copy of an array's values."""
    return wp.to_torch(y, requires_grad=False).clone()
