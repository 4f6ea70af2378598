"""Planted mistakes in a formula's text: a sign, a factor, a dropped term, a dropped conj."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from torch_impl.derivatives import Entry, Formula, parse, unparse
from torch_impl.derivatives.syntax import Binary, Call, Expression, Member, Number, Unary

Kind = Literal["sign", "factor", "dropped term", "dropped conj"]


def mutants(formula: Formula) -> Iterator[tuple[Kind, Formula]]:
    """The formula with one mistake each; of several gradients at once, which make a tuple, only what lies inside."""
    tree = parse(formula.text)
    if len(formula.names) == 1:
        yield "sign", _with(formula, Unary("-", tree))
        yield "factor", _with(formula, Binary("*", Number("2"), tree))
    for kind, changed in _changes(tree):
        yield kind, _with(formula, changed)


def _with(formula: Formula, tree: Expression) -> Formula:
    return dataclasses.replace(formula, text=unparse(tree))


def _changes(tree: Any) -> Iterator[tuple[Kind, Any]]:
    """The tree with one change each, at any depth."""
    if isinstance(tree, Binary) and tree.operator in "+-":
        yield "dropped term", tree.left
        yield "dropped term", tree.right
    if isinstance(tree, Call) and isinstance(tree.callee, Member) and tree.callee.name == "conj":
        yield "dropped conj", tree.callee.of
    if isinstance(tree, tuple):
        for i, item in enumerate(tree):
            for kind, changed in _changes(item):
                yield kind, (*tree[:i], changed, *tree[i + 1 :])
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            for kind, changed in _changes(getattr(tree, field.name)):
                yield kind, dataclasses.replace(tree, **{field.name: changed})


def planted(entry: Entry) -> Iterator[tuple[Kind, Formula, Entry]]:
    """The entry with one formula changed, for every mistake in any of its formulas."""
    for side in ("vjps", "jvps"):
        formulas = getattr(entry, side)
        for i, formula in enumerate(formulas):
            for kind, wrong in mutants(formula):
                yield kind, wrong, dataclasses.replace(entry, **{side: (*formulas[:i], wrong, *formulas[i + 1 :])})
