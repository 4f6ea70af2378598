"""The operators of the fault benchmark, and their versions as PyTorch functions: right ones, and with a fault."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.fault_benchmark.arithmetics import OperandsRounded, SumsSplit
from benchmarks.fault_benchmark.kinds import At, Fault, right

Tensors = tuple[torch.Tensor, ...]
Format = Literal["float64", "float32", "bfloat16", "float16"]
Size = Literal["small", "medium", "kernel"]
Version = Literal[
    "float32 inside",
    "the format throughout",
    "torch.compile",
    "16-bit operands",
    "split sums",
    "saved in the format",
    "eager",
]
FORMATS: tuple[Format, ...] = ("float32", "bfloat16", "float16", "float64")
SIZES: tuple[Size, ...] = ("small", "medium", "kernel")
VERSIONS: tuple[Version, ...] = ("float32 inside", "the format throughout", "torch.compile")
# Right versions that are judged without faults, of `catalog.SUBTLE`.
MORE_VERSIONS: tuple[Version, ...] = ("16-bit operands", "split sums", "saved in the format", "eager")
DTYPES = {name: getattr(torch, name) for name in FORMATS}
ROWS = {"small": {"n": 8, "m": 32}, "medium": {"n": 64, "m": 256}, "kernel": {"n": 256, "m": 1024}}


@dataclass(frozen=True)
class Operator:
    """An operator with its oracle, its versions and the faults of its backward.

    Attributes:
        primal: what it computes, in JAX; the oracle.
        inputs: the names of its inputs.
        draw: (generator, sizes) -> the inputs as float64 or int64 arrays.
        forward: (at, *inputs) -> outputs, and what the backward needs; in PyTorch. It is also the composition that
            autograd differentiates.
        backward: (at, saved, cotangents) -> the gradients of the inputs that are differentiated, in PyTorch.
        faults: at least ten.
        sizes: the sizes of the axes, by "small", "medium" and "kernel".
        constants: the names of the inputs that are not differentiated, integers included.
    """

    name: str
    primal: Callable[..., Any]
    inputs: tuple[str, ...]
    draw: Callable[[np.random.Generator, Mapping[str, int]], Sequence[np.ndarray]]
    forward: Callable[..., tuple[Tensors, Tensors]]
    backward: Callable[[At, Tensors, Tensors], Tensors]
    faults: tuple[Fault, ...]
    sizes: Mapping[str, Mapping[str, int]]
    constants: tuple[str, ...] = ()

    @property
    def differentiated(self) -> tuple[int, ...]:
        """The positions of the inputs that are differentiated."""
        return tuple(i for i, name in enumerate(self.inputs) if name not in self.constants)

    def arguments(self, size: str, format: str, seed: int = 0) -> Tensors:
        """Return the inputs in a format, drawn by a seed and by what depends on the operator and the size only."""
        arrays = self.draw(self._generator(size, f"inputs {seed}" if seed else "inputs"), self.sizes[size])
        return tuple(_in_format(x, format) for x in arrays)

    def cotangents(self, outputs: Sequence[torch.Tensor], size: str, format: str) -> Tensors:
        """Return one cotangent for each output, normally distributed and rounded to the format."""
        rng = self._generator(size, "cotangents")
        return tuple(_in_format(rng.standard_normal(tuple(y.shape)), format) for y in outputs)

    def _generator(self, size: str, role: str) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(f"{self.name} {size} {role}".encode()))


def _in_format(x: np.ndarray, format: str) -> torch.Tensor:
    x_ = torch.from_numpy(np.ascontiguousarray(x))
    return x_.to(DTYPES[format]) if x_.is_floating_point() else x_


def format_of(inputs: Sequence[torch.Tensor]) -> str:
    """Return the format of the first input that is not of integers."""
    return str(next(x.dtype for x in inputs if x.is_floating_point())).removeprefix("torch.")


def _floats_to(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> Tensors:
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in tensors)


def _single_or_all(tensors: Tensors) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors


def composition(operator: Operator) -> Callable[..., Any]:
    """Return the operator as PyTorch's operations, for autograd to differentiate."""

    def composed(*inputs: torch.Tensor) -> Any:
        return _single_or_all(operator.forward(right, *inputs)[0])

    return composed


def with_backward(
    operator: Operator,
    at: At,
    throughout: bool,
    mode: Callable[[torch.dtype], AbstractContextManager[Any]] = lambda dtype: nullcontext(),
    saves_in_format: bool = False,
) -> Callable[..., Any]:
    """Return the operator as an autograd.Function with its own backward, right or with a fault.

    `throughout`: every operation is computed in the format of the inputs, as PyTorch rounds it; otherwise all are
    computed in float32, or in float64 if the inputs are, and each result is rounded to the format once. `mode`: of a
    format, the context in which it computes. `saves_in_format`: what the backward needs is rounded to the format, too.
    """

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            dtype = DTYPES[format_of(inputs)]
            ctx.dtype, ctx.inside = dtype, dtype if throughout else torch.promote_types(dtype, torch.float32)
            with mode(dtype):
                outputs, saved = operator.forward(at, *_floats_to(inputs, ctx.inside))
            ctx.save_for_backward(*(_floats_to(_floats_to(saved, dtype), ctx.inside) if saves_in_format else saved))
            return _single_or_all(_floats_to(outputs, dtype))

        @staticmethod
        def backward(ctx, *bars):
            with mode(ctx.dtype):
                found = operator.backward(at, ctx.saved_tensors, _floats_to(bars, ctx.inside))
            gradients: list[torch.Tensor | None] = [None] * len(operator.inputs)
            for i, gradient in zip(operator.differentiated, found, strict=True):
                gradients[i] = gradient.to(ctx.dtype)
            return tuple(gradients)

    return Own.apply


def version(operator: Operator, name: str, fault: Fault | None = None) -> Callable[..., Any]:
    """Return a version of the operator by its name; those with a backward of their own may have a fault."""
    if name in ("torch.compile", "eager"):
        if fault is not None:
            raise ValueError(f"the backward of {name} is PyTorch's own: it cannot have a planted fault")
        composed = composition(operator)
        return composed if name == "eager" else torch.compile(composed, fullgraph=True, dynamic=False)
    modes = {"16-bit operands": OperandsRounded, "split sums": lambda dtype: SumsSplit()}
    mode = modes.get(name, lambda dtype: nullcontext())
    throughout, saves = name == "the format throughout", name == "saved in the format"
    return with_backward(operator, fault or right, throughout, mode, saves)


def outputs_and_gradients(call: Callable[..., Any], operator: Operator, inputs: Tensors, size: str) -> Tensors:
    """Return what a version computes: its outputs, then the gradients of the inputs that are differentiated."""
    leaves = [x.detach().clone().requires_grad_(i in operator.differentiated) for i, x in enumerate(inputs)]
    found = call(*leaves)
    outputs = (found,) if isinstance(found, torch.Tensor) else tuple(found)
    wanted = [leaves[i] for i in operator.differentiated]
    gradients = torch.autograd.grad(outputs, wanted, operator.cotangents(outputs, size, format_of(inputs)))
    return tuple(x.detach() for x in (*outputs, *gradients))


def reference(operator: Operator, inputs: Tensors, size: str) -> Tensors:
    """Return the outputs and gradients in float64, at inputs and cotangents that are rounded to their format."""
    doubles = _floats_to(inputs, torch.float64)
    leaves = [x.detach().clone().requires_grad_(i in operator.differentiated) for i, x in enumerate(doubles)]
    outputs = operator.forward(right, *leaves)[0]
    bars = _floats_to(operator.cotangents(outputs, size, format_of(inputs)), torch.float64)
    gradients = torch.autograd.grad(outputs, [leaves[i] for i in operator.differentiated], bars)
    return tuple(x.detach() for x in (*outputs, *gradients))


def exact_with(operator: Operator, fault: Fault, inputs: Tensors, size: str) -> Tensors:
    """Return the outputs and gradients that a fault leads to in float64, at the same inputs as `reference`."""
    with torch.no_grad():
        outputs, saved = operator.forward(fault, *_floats_to(inputs, torch.float64))
        bars = _floats_to(operator.cotangents(outputs, size, format_of(inputs)), torch.float64)
        return (*outputs, *operator.backward(fault, saved, bars))


def below_rounding(wrong: Sequence[torch.Tensor], right_: Sequence[torch.Tensor], format: str) -> bool:
    """Return whether a fault changes every entry by less than half a unit in the last place of the format."""
    return all(bool(((a - b).abs() < 0.5 * _ulp(b, format)).all()) for a, b in zip(wrong, right_, strict=True))


def _ulp(x: torch.Tensor, format: str) -> torch.Tensor:
    """The distance between neighbours of x in a format; for subnormal numbers that of the smallest ones."""
    about = torch.finfo(DTYPES[format])
    _, exponent = torch.frexp(x.abs().clamp(min=about.smallest_normal))
    return torch.full_like(x, about.eps).ldexp(exponent - 1)
