"""Parses the text of a formula: the C++ expressions of derivatives.yaml, by recursive descent."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from torch_impl.derivatives.errors import FormulaSyntaxError
from torch_impl.derivatives.syntax import (
    PRECEDENCE,
    UNARY,
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
    Parameter,
    String,
    Unary,
)
from torch_impl.derivatives.tokens import Token, tokens

T = TypeVar("T")
# PyTorch's formulas reach 16 and 12; beyond these, who walks the tree would run out of stack
_DEEPEST, _LONGEST = 40, 150


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Expression:
    """The syntax tree of a formula, which is shared by all who ask for the same text.

    Raises:
        FormulaSyntaxError: with the position in the text, and what was expected there.
    """
    parser = _Parser(text)
    tree = parser.expression()
    parser.expect_end()
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _sees(self, *symbols: str) -> bool:
        return self._next.kind == "symbol" and self._next.text in symbols

    def _accept(self, symbol: str) -> bool:
        seen = self._sees(symbol)
        self._at += seen
        return seen

    def _fail(self, expected: str) -> FormulaSyntaxError:
        return FormulaSyntaxError(self._text, self._next.position, expected)

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            raise self._fail(f"`{symbol}`")

    def _name(self, what: str) -> str:
        if self._next.kind != "name":
            raise self._fail(what)
        return self._take().text

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._fail("an operator or the end")

    @contextlib.contextmanager
    def _one_deeper(self) -> Iterator[None]:
        if self._depth == _DEEPEST:
            raise self._fail(f"at most {_DEEPEST} brackets, signs and conditions within each other")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _check_length(self, number: int) -> None:
        if number > _LONGEST:
            raise self._fail(f"at most {_LONGEST} operators or calls in a row")

    def expression(self) -> Expression:
        with self._one_deeper():
            test = self._binary(0)
            if not self._accept("?"):
                return test
            then = self.expression()
            self._expect(":")
            return Conditional(test, then, self.expression())

    def _binary(self, level: int) -> Expression:
        if level == len(PRECEDENCE):
            return self._unary()
        left, number = self._binary(level + 1), 0
        while self._sees(*PRECEDENCE[level]):
            self._check_length(number := number + 1)
            operator = self._take().text
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> Expression:
        if self._sees(*UNARY):
            with self._one_deeper():
                return Unary(self._take().text, self._unary())
        return self._postfix()

    def _postfix(self) -> Expression:
        tree, number = self._primary(), 0
        while True:
            self._check_length(number := number + 1)
            if self._accept("("):
                tree = Call(tree, self._list(self.expression, ")"))
            elif self._accept("["):
                tree = Index(tree, self.expression())
                self._expect("]")
            elif self._sees(".", "->"):
                arrow = self._take().text == "->"
                tree = Member(tree, self._name("the name of a member"), arrow)
            else:
                return tree

    def _list(self, item: Callable[[], T], close: str) -> tuple[T, ...]:
        """Items between commas, up to the bracket that closes them."""
        items: list[T] = []
        while not self._accept(close):
            if items:
                self._expect(",")
            items.append(item())
        return tuple(items)

    def _primary(self) -> Expression:
        if self._accept("("):
            tree = self.expression()
            self._expect(")")
            return tree
        if self._accept("{"):
            return Braces(self._list(self.expression, "}"))
        if self._accept("["):
            return self._lambda()
        if self._next.kind == "number":
            return Number(self._take().text)
        if self._next.kind == "string":
            return String(self._take().text)
        if self._next.kind == "name" or self._sees("::"):
            return self._qualified()
        raise self._fail("a value")

    def _lambda(self) -> Lambda:
        self._expect("]")
        self._expect("(")
        parameters = self._list(self._parameter, ")")
        self._expect("{")
        if self._name("`return`") != "return":
            self._at -= 1
            raise self._fail("`return`")
        body = self.expression()
        self._expect(";")
        self._expect("}")
        return Lambda(parameters, body)

    def _parameter(self) -> Parameter:
        return Parameter(self._qualified(), self._name("the name of a parameter"))

    def _qualified(self) -> Name:
        parts = [""] if self._accept("::") else []
        parts.append(self._name("a name"))
        while self._accept("::"):
            parts.append(self._name("a name"))
        return Name(tuple(parts), self._templates(qualified=len(parts) > 1))

    def _templates(self, qualified: bool) -> tuple[Name | Number, ...]:
        """Template arguments, or nothing where `<` is a comparison.

        C++ tells them apart by what the name stands for. Here a plain name takes only numbers, as in `foo<1>(x)`.
        """
        start = self._at
        if not self._accept("<"):
            return ()
        try:
            found = self._list(self._template_argument, ">")
        except FormulaSyntaxError:
            found = ()
        if not found or not (qualified or (self._sees("(") and all(isinstance(one, Number) for one in found))):
            self._at = start
            return ()
        return found

    def _template_argument(self) -> Name | Number:
        with self._one_deeper():
            return Number(self._take().text) if self._next.kind == "number" else self._qualified()
