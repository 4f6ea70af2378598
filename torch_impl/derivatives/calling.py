"""Calls ATen's operators as C++ does: positional arguments in the schema's order, the overload by their types."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

from torch_impl.derivatives.allowed import refusal, writes_to_first
from torch_impl.derivatives.errors import EvaluationError, NotEvaluable, OperatorRefused
from torch_impl.derivatives.values import Scope, TensorOptions

_NUMBER = {"int": 0, "SymInt": 0, "number": 1, "float": 2, "Tensor": 5}
_FLOAT = {"float": 0, "number": 1, "Tensor": 5}
_ENUMERATIONS = ("ScalarType", "Layout", "MemoryFormat")


def has_operator(name: str) -> bool:
    """Whether ATen has an operator of this name, which C++ may call with `_symint` after it."""
    return bool(_overloads(name.removesuffix("_symint")))


def refusal_of(name: str) -> str | None:
    """Why a formula must not call any overload of an operator, in words; None if it may call one, or there is none."""
    reasons = [refusal(overload) for overload in _overloads(name.removesuffix("_symint"))]
    return None if None in reasons or not reasons else next(reason for reason in reasons if reason)


def call_operator(name: str, arguments: Sequence[Any], scope: Scope) -> Any:
    """Call the overload of an operator of ATen that fits the arguments best.

    Args:
        name: the operator's name, without `aten::`.
        arguments: its arguments by position.
        scope: what the formula was given, which it must not write to.

    Raises:
        NotEvaluable: there is no such operator.
        OperatorRefused: it is not one that a formula may call, or would write to a tensor of `scope`.
        EvaluationError: no overload takes these arguments.
    """
    name = name.removesuffix("_symint")
    overloads = _overloads(name)
    if not overloads:
        raise NotEvaluable(name, "there is no such operator, and it is not written in Python here")
    given = _expanded(arguments)
    allowed = [overload for overload in overloads if refusal(overload) is None]
    overload = _best(allowed, given)
    if overload is None:
        reason = refusal(refused) if (refused := _best(overloads, given)) else refusal_of(name)
        if reason is not None:
            raise OperatorRefused(f"at::{name} is refused: it {reason}")
        kinds = ", ".join(type(one).__name__ for one in arguments)
        declared = "\n  ".join(str(overload._schema) for overload in overloads)
        raise EvaluationError(f"no overload of aten::{name} takes ({kinds}); there is\n  {declared}")
    if writes_to_first(overload):
        _refuse_to_write(name, given[0], scope)
    pairs = list(zip(overload._schema.arguments, given, strict=False))
    positional = [_converted(value) for d, value in pairs if not d.kwarg_only]
    named = {d.name: _converted(value) for d, value in pairs if d.kwarg_only}
    return overload(*positional, **named)


def _refuse_to_write(name: str, written: torch.Tensor, scope: Scope) -> None:
    """PyTorch's own formulas write to tensors that they have made, and an in-place operator's to its tangent."""
    own = {"self_t"} if "original_self_t" in scope else set()
    kept = {of: place for of, given in scope.items() if of not in own for place in _memory(given)}
    where = _memory(written)
    if not where:
        raise OperatorRefused(f"at::{name} is refused: it writes to a {written.layout} tensor; leave out its last `_`")
    for of, place in kept.items():
        if place in where:
            text = f"at::{name} is refused: it writes to the memory of {of}, which the formula is only given"
            raise OperatorRefused(f"{text}; leave out its last `_`, which gives a new tensor")


def _memory(value: Any) -> list[int]:
    """Where the entries of a tensor, or of those in a list, are; nothing of what has no memory that can be named."""
    if isinstance(value, (list, tuple)):
        return [place for one in value for place in _memory(one)]
    if not isinstance(value, torch.Tensor):
        return []
    while is_functorch_wrapped_tensor(value):
        value = get_unwrapped(value)
    if value.layout is torch.sparse_coo:
        return [*_memory(value._indices()), *_memory(value._values())]
    if value.layout is not torch.strided or value.is_mkldnn:
        return []
    return [value.untyped_storage()._cdata]


def _best(overloads: Sequence[torch._ops.OpOverload], given: Sequence[Any]) -> torch._ops.OpOverload | None:
    costs = [(cost, i) for i, overload in enumerate(overloads) if (cost := _cost(overload, given)) is not None]
    return overloads[min(costs)[1]] if costs else None


@functools.cache
def _overloads(name: str) -> tuple[torch._ops.OpOverload, ...]:
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return ()
    found = [getattr(packet, overload) for overload in packet.overloads()]
    return tuple(one for one in found if not any(a.is_out for a in one._schema.arguments))


def _expanded(arguments: Sequence[Any]) -> list[Any]:
    """TensorOptions are four arguments of a schema: dtype, layout, device, pin_memory."""
    found: list[Any] = []
    for one in arguments:
        found += [one.dtype, one.layout, one.device, None] if isinstance(one, TensorOptions) else [one]
    return found


def _cost(overload: torch._ops.OpOverload, given: Sequence[Any]) -> int | None:
    """How far the arguments must be converted for an overload, `None` where they cannot be."""
    declared = overload._schema.arguments
    if len(given) > len(declared) or not all(one.has_default_value() for one in declared[len(given) :]):
        return None
    costs = [_conversion(str(d.real_type), value) for d, value in zip(declared, given, strict=False)]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _conversion(kind: str, value: Any) -> int | None:
    if kind.startswith("Optional["):
        return 0 if value is None else _conversion(kind.removeprefix("Optional[").removesuffix("]"), value)
    if kind.startswith("List["):
        return _of_list(kind.removeprefix("List[").removesuffix("]"), value)
    match value:
        case torch.Tensor():
            return 0 if kind == "Tensor" else None
        case bool():
            return {"bool": 0, "number": 1, "int": 2}.get(kind)
        case int():
            return _NUMBER.get(kind)
        case float():
            return _FLOAT.get(kind)
        case complex():
            return {"number": 0, "Tensor": 5}.get(kind)
        case str():
            return 0 if kind == "str" else None
        case torch.device():
            return 0 if kind == "Device" else None
        case torch.dtype() | torch.layout() | torch.memory_format():
            return 0 if kind in _ENUMERATIONS else None
        case torch.Generator():
            return 0 if kind == "Generator" else None
        case _:
            return None


def _of_list(kind: str, value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and kind in ("int", "SymInt"):
        return 3
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    costs = [_conversion(kind, one) for one in _flat(value)]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _flat(value: Sequence[Any]) -> Sequence[Any]:
    """`{{1, 1}}` is an array that is made from a list of one array."""
    return value[0] if len(value) == 1 and isinstance(value[0], Sequence) else value


def _converted(value: Any) -> Any:
    return list(_flat(value)) if isinstance(value, (list, tuple)) else value
