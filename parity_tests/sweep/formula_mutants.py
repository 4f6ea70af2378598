"""Planted mistakes in a formula's text, one at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, get_args

from torch_impl.derivatives import Entry, Formula, parse, unparse
from torch_impl.derivatives.syntax import Binary, Call, Expression, Member, Name, Number, Unary

Kind = Literal[
    "sign",
    "factor",
    "dropped term",
    "dropped factor",
    "dropped conj",
    "swapped operands",
    "wrong saved value",
    "wrong dim",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


def mutants(entry: Entry, formula: Formula) -> Iterator[tuple[Kind, Formula]]:
    """The formula with one mistake each; of several gradients at once, which make a tuple, only what lies inside."""
    tree = parse(formula.text)
    if len(formula.names) == 1:
        yield "sign", _with(formula, Unary("-", tree))
        yield "factor", _with(formula, Binary("*", Number("2"), tree))
    swaps = _swaps(entry)
    seen = {formula.text}
    for kind, changed in _changes(tree, swaps):
        wrong = _with(formula, changed)
        if wrong.text not in seen:
            seen.add(wrong.text)
            yield kind, wrong


def _swaps(entry: Entry) -> dict[str, str]:
    """For the name of an input the result, and the reverse: what a formula may have saved instead."""
    inputs = [name for formula in entry.vjps for name in formula.names]
    results = ["result"] if len(entry.result_names) == 1 else list(entry.result_names)
    if not inputs:
        return {}
    return {name: results[0] for name in inputs} | {results[0]: inputs[0]}


def _with(formula: Formula, tree: Expression) -> Formula:
    return dataclasses.replace(formula, text=unparse(tree))


def _changes(tree: Any, swaps: dict[str, str]) -> Iterator[tuple[Kind, Any]]:
    """The tree with one change each, at any depth."""
    yield from _here(tree, swaps)
    if isinstance(tree, tuple):
        for i, item in enumerate(tree):
            for kind, changed in _changes(item, swaps):
                yield kind, (*tree[:i], changed, *tree[i + 1 :])
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            for kind, changed in _changes(getattr(tree, field.name), swaps):
                yield kind, dataclasses.replace(tree, **{field.name: changed})


def _here(tree: Any, swaps: dict[str, str]) -> Iterator[tuple[Kind, Any]]:
    """What may stand in the place of an expression."""
    match tree:
        case Binary("+" | "-", left, right):
            yield "dropped term", left
            yield "dropped term", right
            if tree.operator == "-":
                yield "swapped operands", Binary("-", right, left)
        case Binary("*" | "/", left, right):
            yield "dropped factor", left
            if tree.operator == "/":
                yield "swapped operands", Binary("/", right, left)
        case Call(Member(of, "conj"), ()):
            yield "dropped conj", of
        case Name((name,), ()) if name in swaps:
            yield "wrong saved value", Name((swaps[name],))
        case Name(("dim",), ()):
            yield "wrong dim", Number("0")
        case _:
            return


def planted(entry: Entry) -> Iterator[tuple[Kind, Formula, Entry]]:
    """The entry with one formula changed, for every mistake in any of its formulas that PyTorch's file spells out."""
    for side in ("vjps", "jvps"):
        formulas = getattr(entry, side)
        for i, formula in enumerate(formulas):
            for kind, wrong in mutants(entry, formula):
                yield kind, wrong, dataclasses.replace(entry, **{side: (*formulas[:i], wrong, *formulas[i + 1 :])})
