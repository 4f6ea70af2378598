"""Printed equations as values: the right-hand side of a line of LaTeX, and of code, at random 3 x 3 matrices.

Matrices that are square let everything fit, and random ones let nothing be equal by chance: a wrong sign, letter,
transpose or product shows.
"""

from __future__ import annotations

import ast
import re
import zlib

import numpy as np

SIZE = 3
VECTORS = ("b", "c", "s", "mu")  # a column in print, flat in code
NUMBERS = ("sigma",)
ACCENTS = {r"\dot": "_dot", r"\bar": "_bar", r"\hat": "_grad"}
FUNCTIONS = {r"\sin": np.sin, r"\cos": np.cos, r"\tanh": np.tanh}


def value_of(name: str) -> np.ndarray:
    """A random matrix, vector or number, for each name."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shape = () if name in NUMBERS else (SIZE,) if name.split("_")[0] in VECTORS else (SIZE, SIZE)
    return np.asarray(rng.uniform(0.5, 1.5, shape))


class _Names(dict):
    """The names of code: matrices, but for the functions of the pages that stand for one."""

    def __missing__(self, name: str) -> object:
        stand_for = {
            "n": lambda: SIZE,
            "slope": lambda: lambda A: value_of("D"),
            "slope_dot": lambda: lambda A, A_dot: value_of("D_dot"),
            "scores": lambda: lambda *x: value_of("S"),
        }
        if name in ("np", "len"):
            raise KeyError(name)
        return stand_for.get(name, lambda: value_of(name))()


def of_code(code: str) -> np.ndarray:
    """The value of a statement's right side."""
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Assign | ast.Return)
    value = statement.value
    if isinstance(value, ast.List):
        (value,) = value.elts
    assert value is not None
    return np.squeeze(eval(compile(ast.Expression(value), code, "eval"), {"np": np}, _Names()))


def of_print(equation: str) -> np.ndarray:
    """The value of what is right of the last equality sign."""
    parser = _Parser(re.findall(r"\\[A-Za-z]+|[A-Za-z]|\d+|[{}()^+\-']", equation.split("=")[-1].split(r"\qquad")[0]))
    value = parser.sum()
    assert not parser.tokens, f"{parser.tokens} are left of {equation}"
    return np.squeeze(value)


class _Parser:
    """sum: terms with signs; term: products with ∘; product: factors side by side; factor: transposed or not."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def _next(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def _take(self, *expected: str) -> str:
        token = self.tokens.pop(0)
        assert not expected or token in expected, f"{token} in the place of {expected}"
        return token

    def sum(self):
        total = 0
        while True:
            sign = -1 if self._next() in ("+", "-") and self._take() == "-" else 1
            total = total + sign * self.term()
            if self._next() not in ("+", "-"):
                return total

    def term(self):
        result = self.product()
        while self._next() == r"\circ":
            self._take()
            result = result * self.product()
        return result

    def product(self):
        result = self.factor()
        while self._next() not in ("", "+", "-", ")", "}", r"\circ"):
            factor = self.factor()
            both = np.ndim(result) and np.ndim(factor)
            result = result @ factor if both else result * factor
        return result

    def factor(self):
        value = self.atom()
        if self._next() == "^":
            self._take()
            self._take(r"\top")
            return value.T
        return value

    def atom(self):
        token = self._next()
        if token == "(":
            self._take()
            value = self.sum()
            self._take(")")
            return value
        if token in FUNCTIONS:
            return FUNCTIONS[self._take()](self.atom())
        if token.isdigit():
            return int(self._take())
        if token == r"\mathbf":
            self._take()
            self._take("1")
            return np.ones((SIZE, 1))
        if token == r"\frac":  # 1 / n, the only one
            fraction = [self._take() for _ in range(7)]
            assert "".join(fraction) == r"\frac{1}{n}", fraction
            return 1 / SIZE
        value = value_of(self.name())
        return value[:, None] if value.ndim == 1 else value

    def name(self) -> str:
        """A letter with accents and primes, as it is in code."""
        accents = []
        while self._next() in ACCENTS:
            accents.append(ACCENTS[self._take()])
        if self._next() == "{":
            self._take()
            name = self.name()
            self._take("}")
        else:
            letter = self._take().removeprefix("\\")
            name = {"O": "output", "A": "attn" if accents[-1:] == ["_bar"] else "A"}.get(letter, letter)
        name += "".join(reversed(accents))
        while self._next() == "'":
            self._take()
            name += "_prime"
        return name
