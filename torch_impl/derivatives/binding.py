"""The arguments of a call by their names in the schema, with the defaults that the schema gives."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torchgen.model import Argument, ListType

from torch_impl.derivatives.entry import Entry
from torch_impl.derivatives.errors import EvaluationError

_NAMED_DEFAULTS = {
    "None": None,
    "Mean": 1,
    "long": torch.int64,
    "contiguous_format": torch.contiguous_format,
}


def bind(entry: Entry, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a call by name: given by position, by name, or by the schema's default.

    Raises:
        EvaluationError: an argument is missing, or there is none of that name or position.
    """
    declared = entry.signature.arguments.flat_all
    if len(args) > len(declared):
        raise EvaluationError(f"{entry.name} has {len(declared)} arguments, not {len(args)}: {entry.schema}")
    bound = {argument.name: value for argument, value in zip(declared, args, strict=False)}
    for name, value in (kwargs or {}).items():
        if name in bound or name not in entry.argument_names:
            problem = "is given twice" if name in bound else "is no argument"
            raise EvaluationError(f"{name} {problem} of {entry.schema}")
        bound[name] = value
    for argument in declared:
        if argument.name not in bound:
            bound[argument.name] = _default(entry, argument)
    return {name: _array(entry, name, bound[name]) for name in entry.argument_names}


def _default(entry: Entry, argument: Argument) -> Any:
    if argument.default is None:
        raise EvaluationError(f"{argument.name} is missing, of {entry.schema}")
    if argument.default in _NAMED_DEFAULTS:
        return _NAMED_DEFAULTS[argument.default]
    return ast.literal_eval(argument.default)


def _array(entry: Entry, name: str, value: Any) -> Any:
    """One number for an array of fixed size stands for as many."""
    of = next(argument.type for argument in entry.signature.arguments.flat_all if argument.name == name)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return [value] * of.size if isinstance(of, ListType) and of.size is not None and whole else value
