"""Cuts the text of a formula into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from torch_impl.derivatives.errors import FormulaSyntaxError

Kind = Literal["name", "number", "string", "symbol", "end"]
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|/\*.*?\*/)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlLuU]*)
    | (?P<name>[A-Za-z_]\w*)
    | "(?P<string>(?:[^"\\]|\\.)*)"
    | (?P<symbol>->|::|\|\||&&|==|!=|<=|>=|[-+*/%!<>=&|^?:.,;(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A token, where it begins, and what kind of thing it is."""

    kind: Kind
    text: str
    position: int


def tokens(text: str) -> list[Token]:
    """The tokens of a formula, without blanks and comments, and one of the kind "end".

    Raises:
        FormulaSyntaxError: a character begins no token.
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaSyntaxError(text, position, "a name, a number, a string or an operator")
        for kind in ("name", "number", "string", "symbol"):
            if match[kind] is not None:
                found.append(Token(kind, match[kind], position))
        position = match.end()
    return [*found, Token("end", "", len(text))]
