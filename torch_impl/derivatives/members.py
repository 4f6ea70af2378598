"""The members of a formula's values: `x.sym_size(0)`, `dtype.has_value()`, `alpha.toDouble()`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from torch_impl.derivatives.calling import call_operator, has_operator
from torch_impl.derivatives.errors import EvaluationError, NotEvaluable
from torch_impl.derivatives.values import Scope, TensorOptions

Number = int | float | complex


def _stored_as_float(x: float) -> float:
    """C++'s float has 32 bits."""
    return struct.unpack("f", struct.pack("f", x))[0]


_OF_TENSOR: dict[str, Callable[..., Any]] = {
    "sizes": lambda x: list(x.shape),
    "sym_sizes": lambda x: list(x.shape),
    "strides": lambda x: list(x.stride()),
    "sym_strides": lambda x: list(x.stride()),
    "size": lambda x, dim: x.shape[dim],
    "sym_size": lambda x, dim: x.shape[dim],
    "numel": lambda x: x.numel(),
    "sym_numel": lambda x: x.numel(),
    "dim": lambda x: x.dim(),
    "scalar_type": lambda x: x.dtype,
    "dtype": lambda x: x.dtype,
    "layout": lambda x: x.layout,
    "device": lambda x: x.device,
    "options": TensorOptions.of,
    "is_complex": lambda x: x.is_complex(),
    "is_contiguous": lambda x: x.is_contiguous(),
    "requires_grad": lambda x: x.requires_grad,
    "mH": lambda x: x.mH,
    "mT": lambda x: x.mT,
    "suggest_memory_format": lambda x: suggest_memory_format(x),
    "contiguous": lambda x, memory_format=torch.contiguous_format: x.contiguous(memory_format=memory_format),
    "to": lambda x, to: x.to(dtype=to.dtype, device=to.device) if isinstance(to, TensorOptions) else x.to(to),
    "sym_blocksize": lambda x: list(x.values().shape[1:3]) if x.layout in _BLOCKED else None,
}
_BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)
_OF_NUMBER: dict[str, Callable[..., Any]] = {
    "conj": lambda x: x.conjugate() if isinstance(x, complex) else x,
    "toDouble": lambda x: float(x),
    "toFloat": lambda x: _stored_as_float(float(x)),
    "toComplexDouble": lambda x: complex(x),
    "isComplex": lambda x: isinstance(x, complex),
}
_OF_LIST: dict[str, Callable[..., Any]] = {"size": len, "back": lambda x: x[-1]}
_OF_DEVICE: dict[str, Callable[..., Any]] = {
    "is_cpu": lambda x: x.type == "cpu",
    "is_cuda": lambda x: x.type == "cuda",
    "is_xpu": lambda x: x.type == "xpu",
}


def call_member(of: Any, name: str, arguments: Sequence[Any], scope: Scope) -> Any:
    """Call `of.name(arguments)` in a formula that was given the values of `scope`.

    Raises:
        OperatorRefused: as `call_operator`.
        EvaluationError: `of` is an undefined tensor or an empty optional.
        NotEvaluable: there is no such member here.
    """
    if name in ("defined", "has_value"):
        return of is not None
    if name == "value_or":
        return arguments[0] if of is None else of
    if of is None:
        raise EvaluationError(f"an undefined tensor or an empty optional has no {name}()")
    if name == "value":
        return of
    known = _known(of).get(name)
    if known is not None:
        return known(of, *arguments)
    if isinstance(of, torch.Tensor) and has_operator(name):
        return call_operator(name, [of, *arguments], scope)
    raise NotEvaluable(f"{name}()", f"it is no member of {type(of).__name__} here")


def is_member(name: str) -> bool:
    """True of a member that is written here, so that no operator of ATen is called for it."""
    return any(name in known for known in (_OF_TENSOR, _OF_NUMBER, _OF_LIST, _OF_DEVICE))


def _known(of: Any) -> dict[str, Callable[..., Any]]:
    match of:
        case torch.Tensor():
            return _OF_TENSOR
        case int() | float() | complex():
            return _OF_NUMBER
        case torch.device():
            return _OF_DEVICE
        case list() | tuple():
            return _OF_LIST
        case _:
            return {}
