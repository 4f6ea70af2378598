"""Common mistakes of newcomers that show before anything is judged, each with its remedy."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping

import jax
import numpy as np
import torch

from parity_tests.harness.judging.remedies import NOT_JAX
from parity_tests.harness.names import one_of
from parity_tests.harness.numbers.contracts import check_arithmetic
from parity_tests.harness.report.results import ORACLE
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.specs.spec_kinds import check_text


def check_candidate(call: object, name: str) -> None:
    """Raise an error with the remedy if a callable cannot be a candidate on tensors as it is, or under this name."""
    if name == ORACLE:
        raise ValueError(
            f"candidate {name!r}: the rows of the oracle itself have this name; give the candidate another"
        )
    check_text("candidate", name)
    if isinstance(call, type) and issubclass(call, torch.autograd.Function):
        raise TypeError(f"candidate {name!r} is the autograd.Function itself; give its apply: {call.__name__}.apply")
    if isinstance(call, OpSpec):
        raise TypeError("the first argument is an OpSpec; the candidate comes first: crosscheck(candidate, spec)")
    if is_jax(call):
        raise TypeError(f"candidate {name!r} is a function of JAX arrays; wrap it: JaxCandidate({name})")


def check_limits(limits: object, known: Collection[str]) -> None:
    """Raise an error if limits are not known checks, by name, each with a reason."""
    if limits is None:
        return
    if not isinstance(limits, Mapping):
        raise TypeError(f'limits must be a dictionary of checks with the reasons, {{"jvp": "why"}}, got {limits!r}')
    for check, reason in limits.items():
        one_of("check", check, tuple(known))
        if not isinstance(reason, str):
            raise TypeError(f'limits["{check}"] must be the reason, as text, got {reason!r}')


def check_names(candidates: Mapping) -> None:
    """Raise an error if candidates by name are none, or have a name that is none."""
    if not candidates:
        raise ValueError("no candidate is given, so nothing would be judged")
    for name in candidates:
        if not isinstance(name, str) or not name:
            raise TypeError(f'the keys of candidates must be their names, such as {{"mine": f}}, got {name!r}')


def check_arithmetic_of_all(arithmetic: object) -> None:
    """Raise a TypeError if what is stated of the roundings of every candidate is no `Arithmetic`."""
    if isinstance(arithmetic, Mapping):
        example = 'candidates = {"mine": Candidate(f, arithmetic=Arithmetic("float32"))}'
        raise TypeError(f"arithmetic must be one Arithmetic, of every candidate; give each its own: {example}")
    check_arithmetic("every candidate", arithmetic)


def check_contracts(spec: OpSpec, candidates: Collection[str]) -> None:
    """Raise a ValueError if `OpSpec.arithmetic` names a candidate that is not there."""
    for name in spec.arithmetic if isinstance(spec.arithmetic, Mapping) else ():
        if name not in candidates:
            raise ValueError(
                f"OpSpec {spec.name}: arithmetic names the candidate {name!r}; the candidates are "
                f"{', '.join(candidates)}"
            )


def check_primal(spec: OpSpec) -> None:
    """Raise a TypeError if the primal of a spec is a function of PyTorch's or NumPy's own, or a module."""
    owner = getattr(spec.primal, "__module__", None) or ""
    if isinstance(spec.primal, np.ufunc) or owner.split(".")[0] == "numpy":
        name = spec.primal.__name__
        there = f"; write jnp.{name}" if hasattr(jax.numpy, name) else ""
        raise TypeError(f"OpSpec {spec.name}: primal is NumPy's {name}, which JAX cannot differentiate{there}")
    if is_torch(spec.primal):
        raise TypeError(f"OpSpec {spec.name}: primal is a PyTorch callable; it {NOT_JAX}")


def is_jax(call: object) -> bool:
    """True if a callable is one of JAX's functions, or made by one of JAX's transforms."""
    call = _unwrapped(call)
    return any(_is_of(name, "jax", "jaxlib") for name in (type(call).__module__, getattr(call, "__module__", None)))


def is_torch(call: object) -> bool:
    """True if a callable is a function or an operator of PyTorch's, a module, or a Function's `apply`."""
    call = _unwrapped(call)
    owner = getattr(call, "__self__", None)
    if isinstance(call, torch.nn.Module) or (isinstance(owner, type) and issubclass(owner, torch.autograd.Function)):
        return True
    owner = getattr(call, "__objclass__", None)  # of a method such as torch.Tensor.tanh
    names = (type(call).__module__, getattr(call, "__module__", None), getattr(owner, "__module__", None))
    return (owner is not None and issubclass(torch.Tensor, owner)) or any(_is_of(name, "torch") for name in names)


def _unwrapped(call: object) -> object:
    while isinstance(call, functools.partial):
        call = call.func
    return call


def _is_of(module: str | None, *packages: str) -> bool:
    return module is not None and module.split(".")[0] in packages
