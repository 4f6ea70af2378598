"""Whether a function of PyTorch can be called with the inputs and parameters of a specification, by its signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.names import nearest

_IN_ORDER = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def check_call(call: Callable, inputs: Sequence[str], params: Mapping[str, object], written: str = "") -> None:
    """Raise an error if a function cannot be called with these inputs, in order, and parameters, by their names.

    Of a function that has no signature, or may take anything, nothing is known. What a decorator adds is its own.

    Args:
        call: the function.
        inputs, params: of the specification.
        written: the line of the inputs, if there is one: "x: (n,d)".

    Raises:
        CannotConvert: it takes fewer inputs, or more, or has no such parameter; the message says what to change.
    """
    try:
        takes = list(inspect.signature(call, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        return
    name = getattr(call, "__qualname__", type(call).__name__).rpartition("<locals>.")[2]
    name = f"the reference, {name},"
    in_order = [p for p in takes if p.kind in _IN_ORDER]
    if len(inputs) > len(in_order) and not any(p.kind is Parameter.VAR_POSITIONAL for p in takes):
        more = " and ".join(inputs[len(in_order) :])
        raise CannotConvert(
            f"{name} takes {len(in_order)} inputs, in order, and {len(inputs)} are given: leave out {more}, or name a "
            "function that takes all of them in order"
        )
    given = {p.name for p in in_order[: len(inputs)]}
    if twice := [p.name for p in in_order[: len(inputs)] if p.kind in _BY_NAME and p.name in params]:
        place = [p.name for p in in_order].index(twice[0])
        raise CannotConvert(
            f"{name} has {twice[0]!r} in place {place + 1}, where {inputs[place]} is, and as a parameter, too"
        )
    known = [p.name for p in takes if p.kind in _BY_NAME and p.name not in given]
    if not any(p.kind is Parameter.VAR_KEYWORD for p in takes):
        _check_names(name, [x for x in params if x not in known], known)
    _check_missing(name, [p for p in takes if p.name not in {*given, *params}], written)


def _check_names(name: str, unknown: Sequence[str], known: Sequence[str]) -> None:
    if unknown:
        has = f"it has {', '.join(known)}" if known else "it has none beside the inputs"
        raise CannotConvert(f"{name} has no parameter {unknown[0]!r}{nearest(unknown[0], known)}; {has}")


def _check_missing(name: str, takes: Sequence[Parameter], written: str) -> None:
    """Raise an error if one of the parameters to which nothing is given has no default."""
    required = [p for p in takes if p.default is Parameter.empty and p.kind in (*_IN_ORDER, *_BY_NAME)]
    by_name = [p.name for p in required if p.kind is Parameter.KEYWORD_ONLY]
    in_order = [p.name for p in required if p.kind is not Parameter.KEYWORD_ONLY]
    if in_order:
        axes = re.findall(r"\(([^()]*)\)", written)  # the last axis of the last input may be one of the next, too
        axis = axes[-1].rpartition(",")[2].strip() if axes else ""
        longer = f', such as "{written}, {", ".join(f"{x}: ({axis})" for x in in_order)}"' if written else ""
        raise CannotConvert(
            f"{name} takes {' and '.join(in_order)}, too: add to the inputs what is a tensor, with its axes{longer}, "
            f'and to the parameters what is none, such as "{in_order[0]}=1"'
        )
    if by_name:
        raise CannotConvert(
            f'{name} needs the parameter {by_name[0]}: give it among the parameters, such as "{by_name[0]}=1"'
        )
