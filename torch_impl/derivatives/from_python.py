"""Writes a formula of derivatives.yaml from a Python function, where that has an exact counterpart in C++."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

from torch_impl.derivatives.errors import FormulaRefused
from torch_impl.derivatives.python_calls import call_of, member_of
from torch_impl.derivatives.syntax import (
    Binary,
    Braces,
    Call,
    Conditional,
    Expression,
    Index,
    Member,
    Name,
    Number,
    String,
    Unary,
)
from torch_impl.derivatives.unparsing import unparse

_BINARY = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_TRUTHS = ("defined", "has_value", "is_complex", "is_contiguous")
_WHOLE = ("sym_size", "sym_numel", "dim")


def formula_of(function: Callable[..., Any]) -> str:
    """The expression of derivatives.yaml that computes what a Python function of tensors returns.

    The function's parameters are the names of the formula: `grad`, `self`, `result`, `self_t`. Its body is assignments
    to new names, which are put in where they are used, and one `return`. A parameter is a tensor, unless its annotation
    is `int`, `float` or `bool`.

    Raises:
        FormulaRefused: a part of the function has no exact counterpart in such an expression; names file and line.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except OSError as error:
        raise FormulaRefused(f"{function!r}: its source is not at hand") from error
    file = inspect.getsourcefile(function) or "?"
    try:
        definition = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except SyntaxError:  # a lambda, of which the source is a part of a statement
        definition = None
    if not isinstance(definition, ast.FunctionDef):
        raise FormulaRefused(f"{file}:{first}: only a function made with `def` is read; write one")
    return unparse(_Writer(file, first, inspect.unwrap(function).__globals__).function(definition))


class _Writer:
    def __init__(self, file: str, first: int, scope: dict[str, Any]) -> None:
        self._file = file
        self._first = first
        self._scope = scope
        self._names: dict[str, Expression] = {}
        self._kinds: dict[str, str] = {}

    def refuse(self, node: ast.AST, what: str, remedy: str) -> NoReturn:
        line = self._first + getattr(node, "lineno", 1) - 1
        raise FormulaRefused(f"{self._file}:{line}: {what}; {remedy}")

    def function(self, definition: ast.FunctionDef) -> Expression:
        parameters = definition.args
        if parameters.vararg or parameters.kwarg:
            self.refuse(definition, "a formula takes no *args or **kwargs", "name its parameters")
        for parameter in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]:
            self._names[parameter.arg] = Name((parameter.arg,))
            self._kinds[parameter.arg] = ast.unparse(parameter.annotation) if parameter.annotation else "Tensor"
        for statement in definition.body:
            match statement:
                case ast.Expr(ast.Constant(str())):
                    continue
                case ast.Assign([ast.Name(name)], value):
                    if name in self._names:
                        self.refuse(statement, f"{name} is given a value twice", "choose a new name")
                    self._names[name] = self.tree(value)
                case ast.Return(ast.expr() as value):
                    return self._returned(value)
                case _:
                    kind = type(statement).__name__
                    self.refuse(statement, f"a statement {kind} has no counterpart", "a formula is one expression")
        self.refuse(definition, "nothing is returned", "end with `return`")

    def _returned(self, value: ast.expr) -> Expression:
        if isinstance(value, ast.Tuple):
            return Call(Name(("std", "make_tuple")), tuple(self.tree(one) for one in value.elts))
        return self.tree(value)

    def tree(self, node: ast.expr) -> Expression:
        match node:
            case ast.Name(name):
                if name not in self._names:
                    self.refuse(node, f"{name} is no parameter and was given no value", "pass it as a parameter")
                return self._names[name]
            case ast.Constant():
                return self._constant(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp(ast.USub(), operand):
                return Unary("-", self.tree(operand))
            case ast.UnaryOp(ast.Not(), operand):
                return Unary("!", self._truth(operand))
            case ast.BoolOp(operator, values):
                return self._and_or(operator, values)
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(test, body, orelse):
                return Conditional(self._truth(test), self.tree(body), self.tree(orelse))
            case ast.List(items) | ast.Tuple(items):
                return Braces(tuple(self.tree(item) for item in items))
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case _:
                self.refuse(node, f"`{ast.unparse(node)}` has no counterpart", "write it with operators and calls")

    def _constant(self, node: ast.Constant) -> Expression:
        match node.value:
            case bool(value):
                return Name(("true" if value else "false",))
            case None:
                return Name(("", "std", "nullopt"))
            case int(value) | float(value) if value == value and abs(value) != float("inf"):
                return Number(repr(value))
            case str(value) if value.isprintable() and '"' not in value and "\\" not in value:
                return String(value)
            case _:
                self.refuse(
                    node, f"the constant {node.value!r} has no counterpart", "use a finite number or plain text"
                )

    def _binary(self, node: ast.BinOp) -> Expression:
        left, right = self.tree(node.left), self.tree(node.right)
        if isinstance(node.op, ast.MatMult):
            return Call(Member(left, "matmul"), (right,))
        if isinstance(node.op, ast.Pow):
            if self._is_number(left):
                self.refuse(node, "`**` of a number is not C++", "use torch.pow, or math.pow")
            return Call(Member(left, "pow"), (right,))
        if type(node.op) not in _BINARY:
            self.refuse(node, f"`{ast.unparse(node)}`: C++ has no such operator", "use a function of torch")
        if isinstance(node.op, ast.Div) and self._is_whole(left) and self._is_whole(right):
            self.refuse(node, "C++ cuts the fraction of a quotient of whole numbers off", "make one of them a float")
        return Binary(_BINARY[type(node.op)], left, right)

    def _is_whole(self, tree: Expression) -> bool:
        match tree:
            case Number(text):
                return text.isdigit()
            case Name((name,)):
                return self._kinds.get(name) in ("int", "bool")
            case Call(Member(_, name)):
                return name in _WHOLE
            case Unary("-", operand):
                return self._is_whole(operand)
            case Binary(operator, left, right):
                return operator in "+-*" and self._is_whole(left) and self._is_whole(right)
            case _:
                return False

    def _is_number(self, tree: Expression) -> bool:
        match tree:
            case Name((name,)):
                return self._kinds.get(name) in ("int", "float", "bool") or name == "M_PI"
            case Number():
                return True
            case Unary("-", operand):
                return self._is_number(operand)
            case Binary(_, left, right):
                return self._is_number(left) and self._is_number(right)
            case Call(Name(("std", _))):
                return True
            case _:
                return self._is_whole(tree)

    def _truth(self, node: ast.expr) -> Expression:
        """A condition, which must be a bool in both languages: the truth of a tensor or a list is another thing."""
        tree = self.tree(node)
        if not self._is_truth(tree):
            self.refuse(node, f"`{ast.unparse(node)}` is not known to be a bool", "compare numbers, or ask `is None`")
        return tree

    def _is_truth(self, tree: Expression) -> bool:
        match tree:
            case Name((name,)):
                return name in ("true", "false") or self._kinds.get(name) == "bool"
            case Unary("!", _):
                return True
            case Binary(operator, left, right):
                compared = operator in _COMPARISONS.values() and self._is_number(left) and self._is_number(right)
                return operator in ("&&", "||") or compared
            case Index(Name((name,)), _):
                return name == "grad_input_mask"
            case Call(Member(_, name)):
                return name in _TRUTHS
            case _:
                return False

    def _and_or(self, operator: ast.boolop, values: list[ast.expr]) -> Expression:
        found = self._truth(values[0])
        for value in values[1:]:
            found = Binary("&&" if isinstance(operator, ast.And) else "||", found, self._truth(value))
        return found

    def _comparison(self, node: ast.Compare) -> Expression:
        if len(node.ops) != 1:
            self.refuse(node, "C++ reads a chain of comparisons otherwise", "join two of them with `and`")
        left, operator, right = self.tree(node.left), node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.Is, ast.IsNot)) and isinstance(right, ast.Constant) and right.value is None:
            is_defined = Call(Member(left, "defined"), ())
            return Unary("!", is_defined) if isinstance(operator, ast.Is) else is_defined
        if type(operator) not in _COMPARISONS:
            self.refuse(node, f"`{ast.unparse(node)}`: C++ has no such comparison", "compare values")
        return Binary(_COMPARISONS[type(operator)], left, self.tree(right))

    def _subscript(self, node: ast.Subscript) -> Expression:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return Call(Member(self.tree(node.value.value), "sym_size"), (self.tree(node.slice),))
        if isinstance(node.value, ast.Name) and node.value.id in ("grads", "grad_input_mask"):
            return Index(self.tree(node.value), self.tree(node.slice))
        self.refuse(node, "an index of a tensor has no counterpart", "use select, narrow or index_select")

    def _attribute(self, node: ast.Attribute) -> Expression:
        if ast.unparse(node) == "math.pi":
            return Name(("M_PI",))
        found = member_of(self.tree(node.value), node.attr)
        if found is None:
            self.refuse(node, f"the attribute .{node.attr} has no counterpart", "use a method")
        return found

    def _call(self, node: ast.Call) -> Expression:
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            self.refuse(node, "C++ has no * and ** in calls", "write the arguments out")
        arguments = [self.tree(one) for one in node.args]
        named = {one.arg: self.tree(one.value) for one in node.keywords if one.arg is not None}
        path = ast.unparse(node.func)
        root = path.partition(".")[0]
        is_path = all(part.isidentifier() for part in path.split("."))
        is_function = is_path and root in self._scope and root not in self._names
        if isinstance(node.func, ast.Attribute) and not is_function:
            found = call_of(self.tree(node.func.value), node.func.attr, arguments, named)
        else:
            found = call_of(None, path, arguments, named, self._scope)
        if isinstance(found, str):
            self.refuse(node, found, "call operators of torch, or functions of torch_impl.derivatives.functions")
        return found
