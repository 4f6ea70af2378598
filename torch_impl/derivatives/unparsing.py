"""The text of a syntax tree, with the parentheses that it needs and no others."""

from __future__ import annotations

from torch_impl.derivatives.syntax import (
    PRECEDENCE,
    Binary,
    Braces,
    Call,
    Conditional,
    Expression,
    Index,
    Lambda,
    Member,
    Name,
    Number,
    String,
    Unary,
)

_CONDITIONAL = -1
_UNARY = len(PRECEDENCE)
_POSTFIX = _UNARY + 1
_LEVEL = {operator: level for level, operators in enumerate(PRECEDENCE) for operator in operators}


def unparse(tree: Expression) -> str:
    """The text of a syntax tree; parsing it gives the tree again."""
    match tree:
        case Name(parts, templates):
            arguments = f"<{', '.join(unparse(one) for one in templates)}>" if templates else ""
            return "::".join(parts) + arguments
        case Number(text):
            return text
        case String(text):
            return f'"{text}"'
        case Call(callee, arguments):
            return f"{_inside(callee, _POSTFIX)}({_listed(arguments)})"
        case Member(of, name, arrow):
            return f"{_inside(of, _POSTFIX)}{'->' if arrow else '.'}{name}"
        case Index(of, index):
            return f"{_inside(of, _POSTFIX)}[{unparse(index)}]"
        case Unary(operator, operand):
            text = _inside(operand, _UNARY)
            # `--x` and `++x` would be one operator
            return f"{operator} {text}" if operator in "+-" and text.startswith(operator) else operator + text
        case Binary(operator, left, right):
            level = _LEVEL[operator]
            return f"{_inside(left, level)} {operator} {_inside(right, level + 1)}"
        case Conditional(test, then, otherwise):
            return f"{_inside(test, 0)} ? {unparse(then)} : {unparse(otherwise)}"
        case Braces(items):
            return f"{{{_listed(items)}}}"
        case Lambda(parameters, body):
            listed = ", ".join(f"{unparse(one.type)} {one.name}" for one in parameters)
            return f"[]({listed}){{return {unparse(body)};}}"


def _listed(items: tuple[Expression, ...]) -> str:
    return ", ".join(unparse(item) for item in items)


def _inside(tree: Expression, level: int) -> str:
    """The text of a tree where what binds looser than `level` needs parentheses."""
    text = unparse(tree)
    return f"({text})" if _level(tree) < level or _is_bare_number(tree, level) else text


def _level(tree: Expression) -> int:
    match tree:
        case Binary(operator):
            return _LEVEL[operator]
        case Conditional():
            return _CONDITIONAL
        case Unary():
            return _UNARY
        case _:
            return _POSTFIX


def _is_bare_number(tree: Expression, level: int) -> bool:
    """`1.x` would be read as a number."""
    return isinstance(tree, Number) and level == _POSTFIX
