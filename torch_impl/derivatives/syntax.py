"""The syntax tree of a formula: the C++ expressions that derivatives.yaml holds, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Name:
    """A name, perhaps qualified and with template arguments: `grad`, `at::where`, `std::get<0>`.

    A leading `::` is an empty first part.
    """

    parts: tuple[str, ...]
    templates: tuple[Name | Number, ...] = ()


@dataclass(frozen=True)
class Number:
    """A number as it is written, so that nothing is lost: `2.`, `-` is not part of it."""

    text: str


@dataclass(frozen=True)
class String:
    """A string literal, without its quotes; escapes stay as they are written."""

    text: str


@dataclass(frozen=True)
class Call:
    """`callee(arguments)`, of a name or of a member."""

    callee: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Member:
    """`of.name`, or `of->name` where `arrow`."""

    of: Expression
    name: str
    arrow: bool = False


@dataclass(frozen=True)
class Index:
    """`of[index]`."""

    of: Expression
    index: Expression


@dataclass(frozen=True)
class Unary:
    """`-`, `+`, `!`, or `*` (the value of an optional)."""

    operator: str
    operand: Expression


@dataclass(frozen=True)
class Binary:
    """`left operator right`, with an operator of PRECEDENCE."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Conditional:
    """`test ? then : otherwise`."""

    test: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Braces:
    """`{a, b}`: a list, or whatever is built from one."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Parameter:
    """`type name`, of a lambda."""

    type: Name
    name: str


@dataclass(frozen=True)
class Lambda:
    """`[](T x){return body;}`, which captures nothing and returns one expression."""

    parameters: tuple[Parameter, ...]
    body: Expression


Expression: TypeAlias = Name | Number | String | Call | Member | Index | Unary | Binary | Conditional | Braces | Lambda

# From the loosest to the tightest; all of them group from the left.
PRECEDENCE: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)
UNARY = ("-", "+", "!", "*")
