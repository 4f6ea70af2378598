"""Evaluates a formula's syntax tree on tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from torch_impl.derivatives.calling import call_operator
from torch_impl.derivatives.errors import EvaluationError, NotEvaluable
from torch_impl.derivatives.functions import MANUAL
from torch_impl.derivatives.members import call_member
from torch_impl.derivatives.syntax import (
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
from torch_impl.derivatives.unparsing import unparse
from torch_impl.derivatives.values import Scope, TensorGeometry

_CONSTANTS = {
    "true": True,
    "false": False,
    "M_PI": math.pi,
    "M_PI_2": math.pi / 2,
    "M_PI_4": math.pi / 4,
    "M_2_SQRTPI": 2 / math.sqrt(math.pi),
    "M_SQRT2": math.sqrt(2),
    "M_LN2": math.log(2),
    "M_LN10": math.log(10),
    "std::nullopt": None,
    "at::Reduction::None": 0,
    "at::Reduction::Mean": 1,
    "at::Reduction::Sum": 2,
    "c10::kJagged": torch.jagged,
    "c10::MemoryFormat::Contiguous": torch.contiguous_format,
    "kCudnnDoubleBackwardMsg": "cuDNN has no double backward",
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le},
    **{">": operator.gt, ">=": operator.ge, "&": operator.and_, "|": operator.or_, "^": operator.xor},
}
_LARGEST_VECTOR = 10_000
_OF_NUMBERS: dict[str, Callable[..., Any]] = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log, "pow": math.pow}
_BUILDERS: dict[str, Callable[..., Any]] = {
    "Tensor": lambda *of: of[0] if of else None,
    "std::optional": lambda *of: of[0] if of else None,
    "std::vector": lambda size, of=None: _vector(size, of),
    "std::make_tuple": lambda *of: tuple(of),
    "IntArrayRef": list,
    "at::OptionalArrayRef": list,
    "TensorGeometry": TensorGeometry.of,
    "GradMode::is_enabled": torch.is_grad_enabled,
}


def evaluate(tree: Expression, scope: Scope) -> Any:
    """The value of an expression, where `scope` says what its names stand for.

    Raises:
        NotEvaluable: the expression needs something that is not written in Python here; says what.
        DerivativeNotImplemented: the expression is PyTorch's own `not_implemented("...")`.
        EvaluationError: a value is undefined, or is not of the kind that the expression needs.
    """
    match tree:
        case Number(text):
            digits = text.rstrip("fFlLuU")
            return int(digits) if digits.isdigit() else float(digits)
        case String(text):
            return text
        case Name():
            return _named(tree, scope)
        case Call():
            return _call(tree, scope)
        case Index(of, index):
            return evaluate(of, scope)[evaluate(index, scope)]
        case Unary(sign, operand):
            return _unary(sign, evaluate(operand, scope))
        case Binary():
            return _binary(tree, scope)
        case Conditional(test, then, otherwise):
            return evaluate(then if _truth(evaluate(test, scope)) else otherwise, scope)
        case Braces(items):
            return [evaluate(item, scope) for item in items]
        case Lambda(parameters, body):
            names = [parameter.name for parameter in parameters]
            return lambda *given: evaluate(body, {**scope, **dict(zip(names, given, strict=True))})
        case Member():
            raise NotEvaluable(unparse(tree), "a member that is not called is not served here")


def _named(tree: Name, scope: Scope) -> Any:
    name = "::".join(part for part in tree.parts if part)
    if name in scope:
        return scope[name]
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    raise NotEvaluable(name, "it is no argument, result, cotangent or tangent of this call, and no known constant")


def _call(tree: Call, scope: Scope) -> Any:
    callee = tree.callee
    if isinstance(callee, Member):
        of = evaluate(callee.of, scope)
        # Codegen saves `bias->sym_sizes()` as an optional, which is empty where the bias is
        if callee.arrow and of is None:
            return None
        return call_member(of, callee.name, [evaluate(one, scope) for one in tree.arguments], scope)
    if not isinstance(callee, Name):
        raise NotEvaluable(unparse(callee), "only names and members are called")
    name = "::".join(part for part in callee.parts if part)
    arguments = [evaluate(one, scope) for one in tree.arguments]
    if name == "std::get" and len(callee.templates) == 1:
        return arguments[0][int(unparse(callee.templates[0]))]
    if name == "std::tuple":
        return tuple(arguments) if arguments else (None,) * len(callee.templates)
    if name in _BUILDERS:
        return _BUILDERS[name](*arguments)
    return call_function(callee.parts, arguments, scope)


def call_function(parts: tuple[str, ...], arguments: list[Any], scope: Scope) -> Any:
    """Call a function by its C++ name: one of FunctionsManual.cpp written anew, or an operator of ATen.

    Raises:
        NotEvaluable: there is neither.
        OperatorRefused: it is an operator that a formula must not call.
    """
    *namespaces, name = [part for part in parts if part]
    if name in _OF_NUMBERS and all(isinstance(one, (int, float)) for one in arguments):
        return _OF_NUMBERS[name](*arguments)
    if not namespaces and (name.removesuffix("_symint") in MANUAL):
        return MANUAL[name.removesuffix("_symint")](*arguments)
    if namespaces in ([], ["at"]):
        if namespaces and name == "sum_to":
            return MANUAL[name](*arguments)
        return call_operator(name, arguments, scope)
    # Such as the user's own operators: what they do is not known here
    raise NotEvaluable("::".join(parts), "only operators of ATen are called: at::name")


def _vector(size: int, of: Any) -> list[Any]:
    if size > _LARGEST_VECTOR:
        raise EvaluationError(f"a vector of {size:,} items; sizes and axes are never more than {_LARGEST_VECTOR:,}")
    return [of] * size


def _unary(sign: str, value: Any) -> Any:
    if sign == "*":
        if value is None:
            raise EvaluationError("an empty optional has no value")
        return value
    if sign == "!":
        return not _truth(value)
    return -_defined(value) if sign == "-" else +_defined(value)


def _binary(tree: Binary, scope: Scope) -> Any:
    left = evaluate(tree.left, scope)
    if tree.operator in ("&&", "||"):
        # C++ looks at the right side only where the left one leaves it open
        decided = _truth(left) is (tree.operator == "||")
        return _truth(left) if decided else _truth(evaluate(tree.right, scope))
    right = evaluate(tree.right, scope)
    left, right = _defined(left), _defined(right)
    whole = _is_whole(left) and _is_whole(right)
    if tree.operator == "/":
        # C++ cuts the fraction of a quotient of whole numbers off
        return _quotient(left, right) if whole else left / right
    if tree.operator == "%":
        if not whole:
            raise NotEvaluable("%", "only of whole numbers")
        return left - right * _quotient(left, right)
    return _BINARY[tree.operator](left, right)


def _quotient(left: int, right: int) -> int:
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _truth(value: Any) -> bool:
    """An optional counts as true where it has a value: `!dtype`."""
    if isinstance(value, bool):
        return value
    if value is None or isinstance(value, torch.dtype):
        return value is not None
    raise EvaluationError(f"a condition must be a bool, got {type(value).__name__}")


def _defined(value: Any) -> Any:
    if value is None:
        raise EvaluationError("an undefined tensor or an empty optional was used as a value")
    if isinstance(value, str):
        raise EvaluationError("text is no number")
    return value
