"""Candidates in MLX: functions of MLX arrays, whose maps are made by MLX's own transforms."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from parity_tests.harness.candidates.base import InDims, MaybeTensors, Tensors
from parity_tests.harness.candidates.bound import BoundCandidate
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused, is_raised_by_python_outside_of
from parity_tests.harness.candidates.transformed import TransformedCandidate
from parity_tests.harness.exceptions.defects import message_of

try:
    import mlx.core as mx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("MLXCandidate needs MLX: pip install 'gradparity[mlx]'") from error

Arrays = tuple[mx.array, ...]

_MLX = Path(str(mx.__file__)).parent
# A missing rule cannot be wrong; it is recognized by the words of MLX's error.
_LACKING = re.compile(
    r"[Nn]ot (yet )?(been )?(implemented|supported)|[Oo]nly supports|Cannot calculate (VJP|JVP)"
    r"|must (have type|promote to) float32"  # of linear algebra, in 16 bits
)


@dataclass(frozen=True)
class MLXCandidate(BoundCandidate, TransformedCandidate):
    """A function of MLX arrays to be judged, with the maps that `mx.vjp`, `mx.jvp` and `mx.vmap` make of it.

    Needs `pip install 'gradparity[mlx]'`. It runs on MLX's default device; in float64, which MLX has on the CPU only,
    there. What MLX says it has not implemented is refused. MLX has no complex128. What a forward writes to
    its inputs is seen; a derivative is made of copies, which `mx.vjp` and `mx.jvp` hand to the function.

    Attributes:
        call: (inputs..., **params) -> array or tuple of arrays. The inputs are `mx.array`s in the judged dtype.
        name: its name in reports; by default that of `call`.
        limits: the checks that it is known to fail, each with the reason; `None`: those for which MLX has no rule.
        arithmetic: what it rounds in the 16-bit dtypes, if that is to be held against it; see `Arithmetic`.
    """

    framework = "MLX"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.call):
            raise TypeError(f"MLXCandidate: needs a function of MLX arrays, got {type(self.call).__name__}")

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return all outputs, integers included."""
        return self._evaluated(self._watched, args, required=True)

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Return the gradients of the inputs that need one; outputs without a cotangent are not differentiated."""
        flags = [True] * len(primals) if requires_grad is None else requires_grad
        chosen = [x for x, flag in zip(primals, flags, strict=True) if flag]
        others = [x for x, flag in zip(primals, flags, strict=True) if not flag]

        def vjp(*arrays: mx.array) -> Arrays:
            some, rest = arrays[: len(chosen)], arrays[len(chosen) :]
            known, given = rest[: len(others)], rest[len(others) :]

            def varied(*x: mx.array) -> Arrays:
                varying, fixed = iter(x), iter(known)
                outputs = self._outputs(*(next(varying if flag else fixed) for flag in flags))
                _check_count(outputs, cotangents)
                return tuple(y for y, w in zip(outputs, cotangents, strict=True) if w is not None)

            return self._vjp(varied, len(chosen))(*some, *given)

        present = [w for w in cotangents if w is not None]
        gradients = iter(self._evaluated(vjp, [*chosen, *others, *present], required=True))
        return tuple(next(gradients) if flag else None for flag in flags)

    def vjp_undefined(self, primals: Sequence[torch.Tensor]) -> MaybeTensors | None:
        """Reverse mode when every cotangent is zero: MLX has no absent ones."""
        return self.vjp(primals, [torch.zeros_like(y) for y in self.forward(primals)])

    def _outputs(self, *args: mx.array) -> Arrays:
        outputs = self._every_output(*args)
        return outputs if self.returns is None else self.returns.real(outputs)

    def _watched(self, *args: mx.array) -> Arrays:
        """Call the function, and note which of the differentiated inputs it has written to, if anybody asks."""
        if self.writes is None:
            return self._every_output(*args)
        compare = self.writes.watch(self._with_gaps(args), (), _bytes)
        outputs = self._every_output(*args)
        compare()
        return outputs

    def _every_output(self, *args: mx.array) -> Arrays:
        """Call the function with these inputs and the bound constants."""
        inputs = self._with_gaps(args)
        for i, x in self.constants.items():
            inputs[i] = None if x is None else _array(x)
        outputs = self.call(*(inputs if self.arranged is None else self.arranged(inputs)), **self.params)
        if self.returns is not None:
            outputs = self.returns.arranged(outputs)
        outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        for y in outputs:
            if not isinstance(y, mx.array):
                raise BadOutput(f"returned {type(y).__name__} where an mx.array, or a tuple of them, is expected")
        return outputs

    def _evaluated(self, f: Callable[..., Arrays], args: Sequence[torch.Tensor], required: bool = False) -> Tensors:
        with _stream_for(args), _refusals(required):
            results = f(*map(_array, args))
            mx.eval(*results)  # an error of MLX's may come only now
            return tuple(map(_tensor, results))

    @staticmethod
    def _vjp(f: Callable[..., Arrays], count: int) -> Callable[..., Arrays]:
        """Return the VJP on flat arguments: `count` primals, then a cotangent for each result."""

        def vjp(*args: mx.array) -> Arrays:
            outputs, gradients = mx.vjp(f, list(args[:count]), list(args[count:]))
            _check_count(outputs, args[count:])  # MLX ignores what is given too many of
            return tuple(gradients)

        return vjp

    @staticmethod
    def _jvp(f: Callable[..., Arrays], count: int) -> Callable[..., Arrays]:
        return lambda *args: tuple(mx.jvp(f, list(args[:count]), list(args[count:]))[1])

    @staticmethod
    def _vmapped(f: Callable[..., Arrays], in_dims: InDims, outer: InDims | None) -> Callable[..., Arrays]:
        batched = mx.vmap(f, tuple(in_dims))
        return batched if outer is None else mx.vmap(batched, tuple(outer))


def _check_count(outputs: Sequence[mx.array], cotangents: Sequence[object]) -> None:
    if len(outputs) != len(cotangents):
        raise BadOutput(f"returned {len(outputs)} outputs, expected {len(cotangents)}")


def _stream_for(args: Sequence[torch.Tensor]) -> contextlib.AbstractContextManager[object]:
    """Return the context in which MLX computes with these: its CPU for float64, else its default device."""
    return mx.stream(mx.cpu) if any(x.dtype is torch.float64 for x in args) else contextlib.nullcontext()


def _array(x: torch.Tensor) -> mx.array:
    """Return an MLX array with a copy of a tensor's values, in its format."""
    if x.device.type != "cpu":
        raise Refused("gradparity hands tensors on the CPU to MLX", Reason.OUT_OF_REACH)
    if x.dtype is torch.complex128:
        raise Refused("MLX has no complex128", Reason.OUT_OF_REACH)
    own, name = x.detach().resolve_conj().resolve_neg(), str(x.dtype).removeprefix("torch.")
    dtype = getattr(mx, "bool_" if name == "bool" else name)
    if x.numel() == 0:  # NumPy gives it strides of 0, with which a reduction of MLX may not return
        return mx.zeros(tuple(x.shape), dtype)
    if x.dtype is torch.bfloat16:
        return mx.array(own.contiguous().view(torch.uint16).numpy()).view(dtype)
    return mx.array(own.numpy(), dtype)


def _tensor(y: mx.array) -> torch.Tensor:
    """Return a tensor with a copy of an array's values, in its format."""
    tensor = torch.from_numpy(_numbers(y))
    return tensor.view(torch.bfloat16) if y.dtype == mx.bfloat16 else tensor


def _numbers(y: mx.array) -> np.ndarray:
    """Return a copy of an array's numbers; of bfloat16, which NumPy does not have, the bits."""
    return np.array(y.view(mx.uint16) if y.dtype == mx.bfloat16 else y)


def _bytes(y: mx.array) -> bytes:
    return _numbers(y).tobytes()


@contextlib.contextmanager
def _refusals(required: bool) -> Iterator[None]:
    """Turn the errors by which MLX says "not implemented" into `Refused`.

    Args:
        required: True for maps that an operator must have, its value and its VJP.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        own = is_raised_by_python_outside_of(error, _MLX)  # whatever it says
        if own or not _LACKING.search(message_of(error)):
            raise
        raise Refused(message_of(error).splitlines()[0], Reason.OWN if required else Reason.NO_RULE_THERE) from error
