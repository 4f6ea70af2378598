"""Keyword parameters in one line, as they are written in a call: "dim=-1, eps=1e-6, groups=c"."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def parameters(text: str) -> Mapping[str, object]:
    """Read them; a name, or an expression with one, stands for sizes of axes, see `AxisSize`.

    Raises:
        ValueError: they are not written as keywords are, or one is given twice, or one is no literal.
    """
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError):  # the second for null bytes
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f'--params: {text!r} is not written as in a call; write "dim=-1, eps=1e-6"')
    found: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ValueError(f'--params: {text!r} has a parameter without a name; write "dim=-1, eps=1e-6"')
        if keyword.arg in found:
            raise ValueError(f"--params: {keyword.arg} is given twice")
        found[keyword.arg] = _value(keyword)
    return found


def _value(keyword: ast.keyword) -> object:
    def read(node: ast.expr) -> object:
        if isinstance(node, ast.Name | ast.BinOp | ast.Call) and any(isinstance(x, ast.Name) for x in ast.walk(node)):
            from parity_tests.harness.specs.size_rules import AxisSize

            return AxisSize(ast.unparse(node))
        if isinstance(node, ast.List):
            return [read(part) for part in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(read(part) for part in node.elts)
        return ast.literal_eval(node)

    try:
        return read(keyword.value)
    except ValueError as error:
        raise ValueError(
            f"--params: {keyword.arg}={ast.unparse(keyword.value)} is no literal; write a number, a string, True, "
            "False, None, the name of an axis for its size, sizes such as d // 2, or a list of these"
        ) from error
