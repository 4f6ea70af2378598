"""Which calls of a formula are refused, before anything is evaluated: also those in a branch that no sample takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from torch_impl.derivatives.calling import refusal_of
from torch_impl.derivatives.errors import OperatorRefused
from torch_impl.derivatives.functions import MANUAL
from torch_impl.derivatives.members import is_member
from torch_impl.derivatives.syntax import Call, Expression, Member, Name


def check_calls(tree: Expression) -> None:
    """Look at each call of an operator in a formula.

    Raises:
        OperatorRefused: a formula must not call it, whatever its arguments are; with what to write instead.
    """
    for part in _parts(tree):
        name = _operator(part.callee) if isinstance(part, Call) else None
        if name is not None and (reason := refusal_of(name)) is not None:
            raise OperatorRefused(f"at::{name} is refused: it {reason}")


def _operator(callee: Expression) -> str | None:
    """The operator of ATen that a call would be of; None if there is another function of that name."""
    if isinstance(callee, Member):
        return None if is_member(callee.name) else callee.name
    if not isinstance(callee, Name):
        return None
    *namespaces, name = [part for part in callee.parts if part]
    written = not namespaces and name.removesuffix("_symint") in MANUAL
    return name if namespaces in ([], ["at"]) and not written else None


def _parts(tree: Expression) -> Iterator[object]:
    waiting: list[object] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        elif dataclasses.is_dataclass(part):
            yield part
            waiting += [getattr(part, field.name) for field in dataclasses.fields(part)]
