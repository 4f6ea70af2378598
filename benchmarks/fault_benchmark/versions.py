"""The versions of an operator as PyTorch functions, right ones and with a fault, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.fault_benchmark.arithmetics import OperandsRounded, SumsSplit
from parity_tests.operators.operator import Mistake, Operator, Tensors, floats_to, right

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
# Right versions that are judged without faults, of `SUBTLE`.
MORE_VERSIONS: tuple[Version, ...] = ("16-bit operands", "split sums", "saved in the format", "eager")
DTYPES = {name: getattr(torch, name) for name in FORMATS}


def arguments(operator: Operator, size: str, format: str, seed: int = 0) -> Tensors:
    """Return the inputs in a format, drawn by a seed and by what depends on the operator and the size only."""
    return tuple(_in_format(x, format) for x in operator.written.drawn(size, seed))


def cotangents(operator: Operator, outputs: Sequence[torch.Tensor], size: str, format: str) -> Tensors:
    """Return one cotangent for each output, normally distributed and rounded to the format."""
    rng = operator.written.generator(size, "cotangents")
    return tuple(_in_format(rng.standard_normal(tuple(y.shape)), format) for y in outputs)


def _in_format(x: np.ndarray, format: str) -> torch.Tensor:
    x_ = torch.from_numpy(np.ascontiguousarray(x))
    return x_.to(DTYPES[format]) if x_.is_floating_point() else x_


def format_of(inputs: Sequence[torch.Tensor]) -> str:
    """Return the format of the first input that is not of integers."""
    return str(next(x.dtype for x in inputs if x.is_floating_point())).removeprefix("torch.")


def version(operator: Operator, name: str, fault: Mistake | None = None) -> Callable[..., Any]:
    """Return a version of the operator by its name; those with a backward of their own may have a fault."""
    if name in ("torch.compile", "eager"):
        if fault is not None:
            raise ValueError(f"the backward of {name} is PyTorch's own: it cannot have a planted fault")
        composed = operator.written.composed
        return composed if name == "eager" else torch.compile(composed, fullgraph=True, dynamic=False)
    modes = {"16-bit operands": OperandsRounded, "split sums": lambda dtype: SumsSplit()}
    mode = modes.get(name, lambda dtype: nullcontext())
    throughout, saves = name == "the format throughout", name == "saved in the format"
    return operator.written.with_backward(fault.at if fault else right, throughout, mode, saves)


def outputs_and_gradients(call: Callable[..., Any], operator: Operator, inputs: Tensors, size: str) -> Tensors:
    """Return what a version computes: its outputs, then the gradients of the inputs that are differentiated."""
    leaves = [x.detach().clone().requires_grad_(i in operator.differentiated) for i, x in enumerate(inputs)]
    found = call(*leaves)
    outputs = (found,) if isinstance(found, torch.Tensor) else tuple(found)
    wanted = [leaves[i] for i in operator.differentiated]
    gradients = torch.autograd.grad(outputs, wanted, cotangents(operator, outputs, size, format_of(inputs)))
    return tuple(x.detach() for x in (*outputs, *gradients))


def reference(operator: Operator, inputs: Tensors, size: str) -> Tensors:
    """Return the outputs and gradients in float64, at inputs and cotangents that are rounded to their format."""
    doubles = floats_to(inputs, torch.float64)
    leaves = [x.detach().clone().requires_grad_(i in operator.differentiated) for i, x in enumerate(doubles)]
    outputs = operator.written.forward(right, *leaves)[0]
    bars = floats_to(cotangents(operator, outputs, size, format_of(inputs)), torch.float64)
    gradients = torch.autograd.grad(outputs, [leaves[i] for i in operator.differentiated], bars)
    return tuple(x.detach() for x in (*outputs, *gradients))


def exact_with(operator: Operator, fault: Mistake, inputs: Tensors, size: str) -> Tensors:
    """Return the outputs and gradients that a fault leads to in float64, at the same inputs as `reference`."""
    with torch.no_grad():
        outputs, saved = operator.written.forward(fault.at, *floats_to(inputs, torch.float64))
        bars = floats_to(cotangents(operator, outputs, size, format_of(inputs)), torch.float64)
        gradients = operator.written.backward(fault.at, saved, bars)
        return (*outputs, *(gradient for gradient in gradients if gradient is not None))


def below_rounding(wrong: Sequence[torch.Tensor], right_: Sequence[torch.Tensor], format: str) -> bool:
    """Return whether a fault changes every entry by less than half a unit in the last place of the format."""
    return all(bool(((a - b).abs() < 0.5 * _ulp(b, format)).all()) for a, b in zip(wrong, right_, strict=True))


def _ulp(x: torch.Tensor, format: str) -> torch.Tensor:
    """The distance between neighbours of x in a format; for subnormal numbers that of the smallest ones."""
    about = torch.finfo(DTYPES[format])
    _, exponent = torch.frexp(x.abs().clamp(min=about.smallest_normal))
    return torch.full_like(x, about.eps).ldexp(exponent - 1)
