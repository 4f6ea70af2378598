"""Planted errors: a line of code with a sign changed, or with a term dropped."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

SIGNS = (ast.Add, ast.Sub)
NEGATED = "negated"  # the name of a function that a page with planted errors needs


def negated(value):
    """-value; of a list or tuple, that of each member."""
    return type(value)(map(negated, value)) if isinstance(value, (list, tuple)) else -value


def planted(code: str) -> Iterator[tuple[str, str]]:
    """What was done, and the statement with it: one error at a time."""
    tree = ast.parse(code)
    (statement,) = tree.body
    assert isinstance(statement, ast.Assign | ast.Return), code
    assert statement.value is not None, code
    whole = copy.deepcopy(tree)
    value = whole.body[0].value  # type: ignore[attr-defined]
    whole.body[0].value = ast.Call(ast.Name(NEGATED), [value], [])  # type: ignore[attr-defined]
    yield "all signs changed", ast.unparse(whole)
    for i, node in enumerate(_signs(tree)):
        if isinstance(node, ast.UnaryOp):
            yield "a sign changed", _with(tree, i, node.operand)
            continue
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "a sign changed", _with(tree, i, ast.BinOp(node.left, other, node.right))
        yield "the right term dropped", _with(tree, i, node.left)
        rest = node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)
        yield "the left term dropped", _with(tree, i, rest)


def signs(code: str) -> str:
    """The plus and minus signs of a statement's value, in the order of reading."""
    tree = ast.parse(code)
    nodes = sorted(_signs(tree), key=_place)
    return "".join("+" if isinstance(getattr(node, "op", None), ast.Add) else "-" for node in nodes)


def _place(node: ast.UnaryOp | ast.BinOp) -> tuple[int, int]:
    operand = node.operand if isinstance(node, ast.UnaryOp) else node.right
    return operand.lineno, operand.col_offset


def _signs(tree: ast.AST) -> list[ast.UnaryOp | ast.BinOp]:
    """The nodes of the signs; not those in indices, nor in keyword arguments such as axis=-1."""
    found: list[ast.UnaryOp | ast.BinOp] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            found.append(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, SIGNS):
            found.append(node)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.keyword) and not (isinstance(node, ast.Subscript) and child is node.slice):
                visit(child)

    visit(tree)
    return found


def _with(tree: ast.Module, i: int, new: ast.expr) -> str:
    """The code of the tree with its i-th sign's node replaced."""
    changed = copy.deepcopy(tree)
    old = _signs(changed)[i]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return copy.deepcopy(new) if node is old else super().visit(node)

    return ast.unparse(Replace().visit(changed))
