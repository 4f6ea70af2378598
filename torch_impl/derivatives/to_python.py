"""Writes a formula of an entry as a Python function: the opposite of `formula_of`, for the same subset."""

from __future__ import annotations

import torch
from torchgen.model import BaseTy, BaseType

from torch_impl.derivatives.entry import Entry, Formula
from torch_impl.derivatives.errors import NotEvaluable
from torch_impl.derivatives.functions import MANUAL
from torch_impl.derivatives.parsing import parse
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

_CONSTANTS = {"true": "True", "false": "False", "M_PI": "math.pi", "std::nullopt": "None"}
_ATTRIBUTES = {"sym_sizes": "shape", "sizes": "shape", "scalar_type": "dtype", "mT": "mT", "mH": "mH"}
_OPERATORS = {"&&": "and", "||": "or", **{one: one for one in ("+", "-", "*", "/", "&", "|", "^")}}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_KINDS = {BaseTy.Scalar: "float", BaseTy.float: "float", BaseTy.bool: "bool", BaseTy.int: "int", BaseTy.SymInt: "int"}


def python_of(entry: Entry, formula: Formula) -> str:
    """The source of a Python function with the formula's values, named `formula`.

    It needs the names `math`, `torch`, and those of `torch_impl.derivatives.functions.MANUAL`.

    Raises:
        NotEvaluable: a part of the formula has no exact counterpart in Python; says which.
    """
    writer = _Writer(_kinds(entry))
    body = writer.text(parse(formula.text))
    parameters = ", ".join(f"{name}: {writer.kinds.get(name, 'Tensor')}" for name in sorted(writer.used))
    return f"def formula({parameters}):\n    return {body}\n"


def _kinds(entry: Entry) -> dict[str, str]:
    """The annotations of the arguments that are numbers."""
    found = {"retain_variables": "bool"}
    for argument in entry.signature.arguments.flat_all:
        if isinstance(argument.type, BaseType) and argument.type.name in _KINDS:
            found[argument.name] = _KINDS[argument.type.name]
    return found


class _Writer:
    def __init__(self, kinds: dict[str, str]) -> None:
        self.kinds = kinds
        self.used: set[str] = set()

    def _refuse(self, tree: Expression, reason: str) -> NotEvaluable:
        return NotEvaluable(unparse(tree), reason)

    def text(self, tree: Expression) -> str:
        match tree:
            case Name():
                return self._name(tree)
            case Number(text):
                return text.rstrip("fFlLuU")
            case String(text):
                return f'"{text}"'
            case Unary("!", Call(Member(of, "defined"), ())):
                return f"({self.text(of)} is None)"
            case Unary(operator, operand) if operator in "-!":
                return f"({'not ' if operator == '!' else '-'}{self.text(operand)})"
            case Binary(operator, left, right) if operator in _OPERATORS:
                if operator == "/" and self._is_whole(left) and self._is_whole(right):
                    raise self._refuse(tree, "C++ cuts the fraction of a quotient of whole numbers off")
                return f"({self.text(left)} {_OPERATORS[operator]} {self.text(right)})"
            case Binary(operator, left, right) if operator in _COMPARISONS:
                return f"({self.text(left)} {operator} {self.text(right)})"
            case Conditional(test, then, otherwise):
                return f"({self.text(then)} if {self.text(test)} else {self.text(otherwise)})"
            case Braces(items):
                return f"[{', '.join(self.text(item) for item in items)}]"
            case Index(Name((name,)) as of, Number() as index) if name in ("grads", "grad_input_mask"):
                return f"{self.text(of)}[{self.text(index)}]"
            case Call(Member()):
                return self._method(tree)
            case Call(Name()):
                return self._function(tree)
            case _:
                raise self._refuse(tree, "it has no counterpart in Python")

    def _name(self, tree: Name) -> str:
        name = "::".join(part for part in tree.parts if part)
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if len(tree.parts) != 1:
            raise self._refuse(tree, "it has no counterpart in Python")
        self.used.add(name)
        return name

    def _is_whole(self, tree: Expression) -> bool:
        match tree:
            case Number(text):
                return text.isdigit()
            case Name((name,)):
                # An int and a Scalar that holds one are divided otherwise than in Python
                return name in self.kinds
            case Call(Member(_, name)):
                return name in ("sym_size", "size", "sym_numel", "numel", "dim")
            case Binary(_, left, right):
                return self._is_whole(left) and self._is_whole(right)
            case _:
                return False

    def _method(self, tree: Call) -> str:
        assert isinstance(tree.callee, Member)
        of, name = tree.callee.of, tree.callee.name
        if isinstance(of, Name) and of.parts[0] in self.kinds:
            raise self._refuse(tree, "a number of Python has no such member")
        arguments = [self.text(one) for one in tree.arguments]
        if name == "defined":
            return f"({self.text(of)} is not None)"
        if name in _ATTRIBUTES and not arguments:
            return f"{self.text(of)}.{_ATTRIBUTES[name]}"
        if name == "sym_size":
            return f"{self.text(of)}.shape[{arguments[0]}]"
        name = name.removesuffix("_symint")
        if name in ("is_complex", "dim") and not arguments:
            return f"{self.text(of)}.{name}()"
        if not hasattr(torch.Tensor, name) or not _is_positional(name, 1 + len(arguments)):
            raise self._refuse(tree, "Python's tensors have no such method, or take its arguments by name")
        return f"{self.text(of)}.{name}({', '.join(arguments)})"

    def _function(self, tree: Call) -> str:
        assert isinstance(tree.callee, Name)
        *namespaces, name = tree.callee.parts
        arguments = ", ".join(self.text(one) for one in tree.arguments)
        if tree.callee.templates:
            raise self._refuse(tree, "Python has no templates")
        if namespaces == ["at"] and name in ("real", "imag"):
            return f"{arguments}.{name}"
        if namespaces == ["std"] and name in ("sqrt", "exp", "log", "pow"):
            return f"math.{name}({arguments})"
        name = name.removesuffix("_symint")
        if not namespaces and name in MANUAL:
            return f"{name}({arguments})"
        if namespaces not in ([], ["at"]) or not _is_positional(name, len(tree.arguments)):
            raise self._refuse(tree, "there is no such operator, or it takes its arguments by name")
        return f"torch.ops.aten.{name}({arguments})"


def _is_positional(name: str, number: int) -> bool:
    """Whether an operator takes so many arguments by position in Python, where it writes to none of them."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None or name.endswith("_"):
        return False
    declared = [getattr(packet, overload)._schema.arguments for overload in packet.overloads()]
    return any(sum(not one.kwarg_only for one in of) >= number for of in declared)
