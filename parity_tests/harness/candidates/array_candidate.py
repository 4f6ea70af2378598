"""Candidates that are formulas on NumPy arrays: a value, and a hand-written VJP and JVP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from parity_tests.harness.candidates.array_programs import Recording
from parity_tests.harness.candidates.formulas import FormulaCandidate, as_tuple
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused


class ArrayCandidate(FormulaCandidate):
    """Formulas on NumPy arrays to be judged.

    They get arrays in the dtype that is judged, of every input, in the order of the spec. NumPy has no bfloat16: there
    they get float32, and each result is rounded once.

    Args:
        forward: (inputs..., **params) -> array or tuple of arrays.
        vjp: (inputs..., cotangents..., **params) -> the gradients of the differentiated inputs, as an array or a tuple;
            None is a zero. A cotangent that is absent is an array of zeros. Complex gradients are by PyTorch's
            convention, the conjugate of JAX's. None: it has no VJP.
        jvp: (inputs..., tangents..., **params) -> the tangents of the outputs. None: it has no JVP.
        name: its name in reports; by default that of `forward`.
        limits: the checks that it is known to fail, each with the reason.
        arithmetic: what it rounds in the 16-bit dtypes, if that is to be held against it; see `Arithmetic`.

    Raises:
        TypeError: a formula is no function, or `arithmetic` is no `Arithmetic`.
    """

    framework = "NumPy"

    recording: Recording | None = None

    def recorded(self, recording: Recording) -> ArrayCandidate:
        """Return the same candidate, the next call of which is noted in `recording`."""
        candidate = self.bound(self.constants, self.params)
        candidate.recording = recording
        return candidate

    def _array(self, x: torch.Tensor) -> np.ndarray:
        """Return a new array with a tensor's values, in its format; float32 for bfloat16, which NumPy does not have."""
        if x.device.type != "cpu":
            raise Refused("NumPy computes on the CPU", Reason.OUT_OF_REACH)
        x = x.detach().resolve_conj().resolve_neg()
        return (x.float() if x.dtype is torch.bfloat16 else x).numpy().copy()

    def _given(self, x: torch.Tensor) -> Any:
        array = self._array(x)
        return array if self.recording is None else self.recording.given(array)

    def _results(self, formula: Callable, arguments: Sequence) -> object:
        with np.errstate(all="ignore"):  # PyTorch and JAX do not warn of an infinity either
            results = super()._results(formula, arguments)
        return results if self.recording is None else self.recording.returned(as_tuple(results))

    def _tensor(self, y: object, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a tensor in the array's own format, or in bfloat16 where the inputs are of that format."""
        if not isinstance(y, np.ndarray | np.generic):
            raise BadOutput(f"returned {type(y).__name__} where an array, or a tuple of arrays, is expected")
        if isinstance(y, np.ma.MaskedArray):
            hidden = int(np.ma.count_masked(y))
            raise BadOutput(
                f"returned a masked array, {hidden} of {y.size} entries masked; return y.filled(value) instead"
            )
        tensor = torch.from_numpy(np.array(y, order="C"))
        judged_in_bfloat16 = any(x.dtype is torch.bfloat16 for x in inputs)
        return tensor.bfloat16() if judged_in_bfloat16 and tensor.dtype is torch.float32 else tensor

    @staticmethod
    def _read(x: np.ndarray) -> bytes:
        return x.tobytes()
