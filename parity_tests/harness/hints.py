"""What newcomers stumble over, known before or by the first error: each with its remedy."""

from __future__ import annotations

import functools
import re

import torch

from parity_tests.harness.report import ORACLE, Row
from parity_tests.harness.spec import OpSpec

# How JAX says that it was given a tensor.
_GIVEN_A_TENSOR = re.compile(
    r"(interpreting argument to|is not a valid JAX type|requires ndarray or scalar arguments).*torch\.Tensor|"
    r"Argument 'tensor\(|Cannot interpret 'torch\.\w+' as a data type",
    re.DOTALL,
)
# How PyTorch says that it was given what JAX traces with.
_GIVEN_A_TRACER = re.compile(r"must be Tensor, not \w*Tracer")
_NOT_JAX = "must be written in JAX: the oracle is to be independent of PyTorch"


def check_candidate(call: object, name: str) -> None:
    """Raise an error with the remedy if a callable cannot be a candidate on tensors as it is, or under this name."""
    if name == ORACLE:
        raise ValueError(
            f"candidate {name!r}: the rows of the oracle itself have this name; give the candidate another"
        )
    if isinstance(call, type) and issubclass(call, torch.autograd.Function):
        raise TypeError(f"candidate {name!r} is the autograd.Function itself; give its apply: {call.__name__}.apply")
    if isinstance(call, OpSpec):
        raise TypeError("the first argument is an OpSpec; the candidate comes first: crosscheck(candidate, spec)")
    if is_jax(call):
        raise TypeError(f"candidate {name!r} is a function of JAX arrays; wrap it: JaxCandidate({name})")


def check_primal(spec: OpSpec) -> None:
    """Raise a TypeError if the primal of a spec is one of PyTorch's own functions, or a module."""
    if is_torch(spec.primal):
        raise TypeError(f"OpSpec {spec.name}: primal is a PyTorch callable; it {_NOT_JAX}")


def is_jax(call: object) -> bool:
    """Is a callable one of JAX's functions, or made by one of JAX's transforms?"""
    call = _unwrapped(call)
    return any(_is_of(name, "jax", "jaxlib") for name in (type(call).__module__, getattr(call, "__module__", None)))


def is_torch(call: object) -> bool:
    """Is a callable one of PyTorch's functions, or operators, or a module, or a Function's `apply`?"""
    call = _unwrapped(call)
    owner = getattr(call, "__self__", None)
    if isinstance(call, torch.nn.Module) or (isinstance(owner, type) and issubclass(owner, torch.autograd.Function)):
        return True
    owner = getattr(call, "__objclass__", None)  # of a method such as torch.Tensor.tanh
    names = (type(call).__module__, getattr(call, "__module__", None), getattr(owner, "__module__", None))
    return (owner is not None and issubclass(torch.Tensor, owner)) or any(_is_of(name, "torch") for name in names)


class NotOnTensors(Exception):
    """A candidate is a function of JAX arrays, as its first row shows; the message has the remedy."""


def check_first_row(row: Row, seen: set[str]) -> None:
    """Raise `NotOnTensors` if the first row of a candidate shows JAX's own error about tensors.

    `seen` are the candidates whose first row has been looked at. A later row with that error is about the candidate.
    """
    if row.candidate == ORACLE or row.candidate in seen:
        return
    seen.add(row.candidate)
    texts = [row.reason, *(wrong.pattern for wrong in (row.failure.wrong if row.failure else ()))]
    if any(map(_GIVEN_A_TENSOR.search, texts)):
        name = row.candidate
        raise NotOnTensors(f"{name} hands tensors to JAX; if it is a function of JAX arrays, give JaxCandidate({name})")


def of_oracle_error(error: Exception) -> str:
    """The text of an `OracleError`, with the remedy if the primal calls PyTorch."""
    return f"{error}; the primal {_NOT_JAX}" if _GIVEN_A_TRACER.search(str(error)) else str(error)


def _unwrapped(call: object) -> object:
    while isinstance(call, functools.partial):
        call = call.func
    return call


def _is_of(module: str | None, *packages: str) -> bool:
    return module is not None and module.split(".")[0] in packages
