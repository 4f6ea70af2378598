"""Candidates that take and return arrays by DLPack: functions of TVM FFI, of C++, of CuPy, of JAX."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from parity_tests.harness.candidates.formulas import FormulaCandidate
from parity_tests.harness.candidates.torch_refusals import BadOutput
from parity_tests.harness.exceptions.defects import first_line


class DLPackCandidate(FormulaCandidate):
    """Formulas on arrays of any library that speaks DLPack, to be judged: a value, and a VJP and a JVP of its own.

    They get contiguous arrays with `__dlpack__`, in the dtype that is judged, on its device, of every input, in the
    order of the spec: tensors of PyTorch without a gradient, which functions of TVM FFI take as they are, and other
    libraries by their `from_dlpack`. They return such arrays of any library.

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

    framework = "DLPack"

    def _array(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)

    def _tensor(self, y: object, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        if not hasattr(y, "__dlpack__"):
            raise BadOutput(
                f"returned {type(y).__name__} where an array with __dlpack__, or a tuple of them, is expected"
            )
        if not isinstance(y, torch.Tensor):
            try:
                y = torch.from_dlpack(y)
            except BufferError as error:
                text = f"returned a {type(y).__name__} that DLPack does not hand over: {first_line(error)}"
                raise BadOutput(text) from error
        return self._array(y)  # by value: DLPack would hand out the memory of a lazy negation without the sign

    @staticmethod
    def _read(x: torch.Tensor) -> bytes:
        return x.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
