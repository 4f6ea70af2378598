"""The expression of `-k`: names that are selected by parts of them, with and, or, not and parentheses, as in pytest."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def matching(expression: str, names: Sequence[str]) -> list[str]:
    """Return the names that match, in their order; "vjp and not partial" matches "vjp_of_jvp", and not "vjp_partial".

    Raises:
        ValueError: the expression has another form, or no name matches.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise _refusal(expression) from error
    found = [name for name in names if _matches(tree, name, expression)]
    if not found:
        raise ValueError(
            f"-k {expression!r}: no check matches, of those that run by default; gradparity checks lists all"
        )
    return found


def _matches(tree: ast.expr, name: str, expression: str) -> bool:
    match tree:
        case ast.Name(id=part):
            return part in name
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _matches(operand, name, expression)
        case ast.BoolOp(op=operator, values=values):
            results = [_matches(value, name, expression) for value in values]
            return all(results) if isinstance(operator, ast.And) else any(results)
    raise _refusal(expression)


def _refusal(expression: str) -> ValueError:
    return ValueError(f"-k {expression!r}: give parts of the names of checks, with and, or, not and parentheses")
