"""Calls ATen's operators as C++ does: positional arguments in the schema's order, the overload by their types."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from torch_impl.derivatives.errors import EvaluationError, NotEvaluable
from torch_impl.derivatives.values import TensorOptions

_NUMBER = {"int": 0, "SymInt": 0, "number": 1, "float": 2, "Tensor": 5}
_FLOAT = {"float": 0, "number": 1, "Tensor": 5}
_ENUMERATIONS = ("ScalarType", "Layout", "MemoryFormat")


def has_operator(name: str, namespace: str = "aten") -> bool:
    """Whether there is an operator of this name, which C++ may call with `_symint` after it."""
    return bool(_overloads(namespace, name.removesuffix("_symint")))


def call_operator(name: str, arguments: Sequence[Any], namespace: str = "aten") -> Any:
    """Call the overload of an operator that fits the arguments best.

    Raises:
        NotEvaluable: there is no such operator.
        EvaluationError: no overload takes these arguments.
    """
    name = name.removesuffix("_symint")
    overloads = _overloads(namespace, name)
    if not overloads:
        raise NotEvaluable(name, "there is no such operator, and it is not written in Python here")
    given = _expanded(arguments)
    costs = [(cost, i) for i, overload in enumerate(overloads) if (cost := _cost(overload, given)) is not None]
    if not costs:
        kinds = ", ".join(type(one).__name__ for one in arguments)
        declared = "\n  ".join(str(overload._schema) for overload in overloads)
        raise EvaluationError(f"no overload of {namespace}::{name} takes ({kinds}); there is\n  {declared}")
    overload = overloads[min(costs)[1]]
    pairs = list(zip(overload._schema.arguments, given, strict=False))
    positional = [_converted(value) for d, value in pairs if not d.kwarg_only]
    named = {d.name: _converted(value) for d, value in pairs if d.kwarg_only}
    return overload(*positional, **named)


@functools.cache
def _overloads(namespace: str, name: str) -> tuple[torch._ops.OpOverload, ...]:
    packet = getattr(getattr(torch.ops, namespace), name, None)
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
