"""Planted mistakes in a formula's text, one at a time."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

from torch_impl.derivatives import Entry, Formula, parse, unparse
from torch_impl.derivatives.syntax import Binary, Braces, Call, Expression, Index, Member, Name, Number, Unary

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
Change = tuple[Kind, Any]  # a tree of syntax, with a mistake
_NO_COTANGENTS = ("grads", "grad_input_mask")


def mutants(entry: Entry, formula: Formula) -> Iterator[tuple[Kind, Formula]]:
    """The formula with one mistake each.

    A sign and a factor are those of the whole, or, where the formula gives several tensors, those of a cotangent or
    tangent in it.
    """
    tree = parse(formula.text)
    replaced: dict[str, Change] = {}
    replaced |= {name: ("wrong saved value", Name((other,))) for name, other in _swaps(entry).items()}
    replaced |= {name: ("wrong dim", zero) for name, zero in _dims(entry).items()}
    scaled = _changes(tree, _scaled_cotangent) if _gives_several(entry, formula) else _scaled(tree)
    seen = {formula.text}
    for kind, changed in itertools.chain(scaled, _changes(tree, lambda each: _here(each, replaced))):
        wrong = _with(formula, changed)
        if wrong.text not in seen:
            seen.add(wrong.text)
            yield kind, wrong


def _gives_several(entry: Entry, formula: Formula) -> bool:
    lists = {argument.name for argument in entry.signature.arguments.flat_all if argument.type.is_list_like()}
    return len(formula.names) > 1 or not lists.isdisjoint(formula.names)


def _scaled(tree: Expression) -> Iterator[Change]:
    yield "sign", Unary("-", tree)
    yield "factor", Binary("*", Number("2"), tree)


def _scaled_cotangent(tree: Any) -> Iterator[Change]:
    match tree:
        case Index(Name(("grads",), ()), _):
            yield from _scaled(tree)
        case Name((name,), ()) if name.endswith("_t") or (name.startswith("grad") and name not in _NO_COTANGENTS):
            yield from _scaled(tree)
        case _:
            return


def _swaps(entry: Entry) -> dict[str, str]:
    """For the name of an input the result, and the reverse: what a formula may have saved instead."""
    inputs = [name for formula in entry.vjps for name in formula.names]
    results = ["result"] if len(entry.result_names) == 1 else list(entry.result_names)
    if not inputs:
        return {}
    return {name: results[0] for name in inputs} | {results[0]: inputs[0]}


def _dims(entry: Entry) -> dict[str, Expression]:
    """For the name of an argument that says which axes, the first axis alone."""
    zero = Number("0")
    types = {argument.name: argument.type for argument in entry.signature.arguments.flat_all}
    return {name: Braces((zero,)) if types[name].is_list_like() else zero for name in types if name == "dim"}


def _with(formula: Formula, tree: Expression) -> Formula:
    return dataclasses.replace(formula, text=unparse(tree))


def _changes(tree: Any, here: Callable[[Any], Iterator[Change]]) -> Iterator[Change]:
    """The tree with one change each, at any depth; `here`: what may stand in the place of an expression."""
    yield from here(tree)
    if isinstance(tree, tuple):
        for i, item in enumerate(tree):
            for kind, changed in _changes(item, here):
                yield kind, (*tree[:i], changed, *tree[i + 1 :])
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            for kind, changed in _changes(getattr(tree, field.name), here):
                yield kind, dataclasses.replace(tree, **{field.name: changed})


def _here(tree: Any, replaced: Mapping[str, Change]) -> Iterator[Change]:
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
        case Name((name,), ()) if name in replaced:
            yield replaced[name]
        case _:
            return


def planted(entry: Entry) -> Iterator[tuple[Kind, Formula, Entry]]:
    """The entry with one formula changed, for every mistake in any of its formulas that PyTorch's file spells out."""
    for side in ("vjps", "jvps"):
        formulas = getattr(entry, side)
        for i, formula in enumerate(formulas):
            if formula.rule != "written":
                continue  # its text is PyTorch's codegen's, made of the other formulas
            for kind, wrong in mutants(entry, formula):
                yield kind, wrong, dataclasses.replace(entry, **{side: (*formulas[:i], wrong, *formulas[i + 1 :])})
