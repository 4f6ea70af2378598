"""How a call or an attribute in Python is written in C++: by the operator's name, keyword arguments in their places."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_impl.derivatives.functions import MANUAL
from torch_impl.derivatives.syntax import Braces, Call, Expression, Member, Name, Number, String, Unary

_ATTRIBUTES = {"shape": "sym_sizes", "dtype": "scalar_type", "ndim": "dim", "mT": "mT", "mH": "mH"}
_METHODS = {"size": "sym_size", "numel": "sym_numel", "is_complex": "is_complex", "dim": "dim"}
# Python's methods of these names take sizes or axes one by one, too
_OF_SIZES = ("view", "reshape", "expand", "permute", "repeat", "tile", "flip", "new_zeros", "new_ones", "new_empty")
_OF_MATH = ("sqrt", "exp", "log", "pow")


def member_of(of: Expression, name: str) -> Expression | None:
    """An attribute of a tensor, `None` where C++ has none."""
    if name in ("real", "imag"):
        return Call(Name(("at", name)), (of,))
    return Call(Member(of, _ATTRIBUTES[name]), ()) if name in _ATTRIBUTES else None


def call_of(
    of: Expression | None,
    path: str,
    arguments: Sequence[Expression],
    named: Mapping[str, Expression],
    scope: Mapping[str, Any] | None = None,
) -> Expression | str:
    """A call of the method `path` of a tensor, or of the function that `scope` has; a text says why there is none."""
    if of is not None:
        return _method(of, path, arguments, named)
    function = _found(path, scope or {})
    if function is None:
        return f"{path} is unknown here"
    name = path.rsplit(".", 1)[-1]
    if MANUAL.get(name) is function:
        return "keyword arguments are not C++" if named else Call(Name((name,)), tuple(arguments))
    if name in _OF_MATH and function is getattr(math, name):
        return "keyword arguments are not C++" if named else Call(Name(("std", name)), tuple(arguments))
    if path.startswith("torch.ops.aten."):
        name = path.split(".")[3]
    elif function is not getattr(torch, name, None) and function is not getattr(torch.special, name, None):
        return f"{path} is no operator of ATen"
    name = name if hasattr(torch.ops.aten, name) else f"special_{name}"
    placed = _placed(name, arguments, named, skipped=0)
    return placed if isinstance(placed, str) else Call(Name(("at", name)), placed)


def _found(path: str, scope: Mapping[str, Any]) -> Any:
    root, *rest = path.split(".")
    found = scope.get(root)
    for part in rest:
        found = getattr(found, part, None)
    return found


def _method(
    of: Expression, name: str, arguments: Sequence[Expression], named: Mapping[str, Expression]
) -> Expression | str:
    if name in _METHODS and not named:
        return Call(Member(of, _METHODS[name] if arguments or name != "size" else "sym_sizes"), tuple(arguments))
    if not hasattr(torch.Tensor, name) or not hasattr(torch.ops.aten, name):
        return f".{name}() is no method that ATen's tensors have"
    placed = _placed(name, arguments, named, skipped=1)
    return placed if isinstance(placed, str) else Call(Member(of, name), placed)


def _placed(
    name: str, arguments: Sequence[Expression], named: Mapping[str, Expression], skipped: int
) -> tuple[Expression, ...] | str:
    """Every argument by position; those that are left out between them have the default that the schema gives."""
    if name.endswith("_"):
        return f"{name} writes to a tensor, which a formula that is put in where it is used must not"
    packet = getattr(torch.ops.aten, name)
    if any(torch.Tag.nondeterministic_seeded in getattr(packet, overload).tags for overload in packet.overloads()):
        return f"{name} draws random numbers, which a formula that is put in where it is used must not"
    if name in _OF_SIZES and not _is_list(arguments[skipped == 0] if len(arguments) > (skipped == 0) else None):
        return f"{name} takes its sizes in C++ as one list, so write them as one"
    if not named:
        return tuple(arguments)
    ways = {}
    for overload in packet.overloads():
        declared = getattr(packet, overload)._schema.arguments[skipped:]
        names = [one.name for one in declared]
        if len(arguments) > len(names) or not set(named) <= set(names[len(arguments) :]):
            continue
        last = max(names.index(one) for one in named)
        rest = [named.get(one.name, _default(one)) for one in declared[len(arguments) : last + 1]]
        if any(one.is_out for one in declared) or None in rest:
            continue
        ways[tuple(one for one in rest if one is not None)] = overload
    if len(ways) != 1:
        return f"{name} with {', '.join(named)} is {'ambiguous' if ways else 'no overload'}"
    return (*arguments, *next(iter(ways)))


def _is_list(tree: Expression | None) -> bool:
    return isinstance(tree, (Braces, Name)) or (
        isinstance(tree, Call) and isinstance(tree.callee, Member) and tree.callee.name == "sym_sizes"
    )


def _default(argument: Any) -> Expression | None:
    if not argument.has_default_value():
        return None
    match argument.default_value:
        case None:
            return Name(("", "std", "nullopt"))
        case bool(value):
            return Name(("true" if value else "false",))
        case int(value) | float(value):
            return Unary("-", Number(repr(-value))) if value < 0 else Number(repr(value))
        case str(value):
            return String(value)
        case _:
            return None
