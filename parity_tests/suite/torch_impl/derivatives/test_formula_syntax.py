"""Formulas are parsed and written back, and a mistake in one is told with its position."""

from __future__ import annotations

import re

import pytest

from torch_impl.derivatives import FormulaSyntaxError, entries, parse, unparse
from torch_impl.derivatives.syntax import Binary, Call, Conditional, Lambda, Member, Name, Number, Unary


def test_every_formula_is_parsed_and_written_back() -> None:
    texts = [formula.text for entry in entries() for formula in (*entry.vjps, *entry.jvps)]
    conditions = [entry.condition for entry in entries() if entry.condition is not None]
    assert len(texts) > 1200
    assert conditions
    for text in (*texts, *conditions):
        tree = parse(text)
        assert parse(unparse(tree)) == tree, text


@pytest.mark.parametrize(
    "text",
    [
        "grad * -self.sin().conj()",
        "a - (b - c)",
        "a - b - c",
        "-(-a)",
        "!(a && b) || c",
        "a ? b : c ? d : e",
        "(a ? b : c) ? d : e",
        "std::get<0>(f(a, {b, {1, 2.}}))",
        "std::tuple<Tensor, Tensor>()",
        "foo<1>(x)",
        "fmap(shifts, [](c10::SymInt i){return -i;})",
        "bias->sym_sizes()",
        "::std::nullopt",
        "*dtype",
        "grads[i]",
        'self.div(other, "trunc")',
        "(1).x",
        "a < b & c >= d",
    ],
)
def test_texts_and_trees_go_back_and_forth(text: str) -> None:
    assert parse(unparse(parse(text))) == parse(text)


def test_precedence_is_that_of_cpp() -> None:
    a, b, c = (Name((name,)) for name in "abc")
    assert parse("a + b * c") == Binary("+", a, Binary("*", b, c))
    assert parse("a & b == c") == Binary("&", a, Binary("==", b, c))
    assert parse("-a.b()") == Unary("-", Call(Member(a, "b"), ()))
    assert parse("a || b ? b : c") == Conditional(Binary("||", a, b), b, c)
    assert parse("/* a comment */ 1.0/a") == Binary("/", Number("1.0"), a)
    assert parse("a < b") == Binary("<", a, b)
    assert isinstance(parse("[](int i, float j){return i;}"), Lambda)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("a +", 3, "a value"),
        ("a ? b", 5, "`:`"),
        ("f(a, )", 5, "a value"),
        ("f(a b)", 4, "`,`"),
        ("grad * @", 7, "a name, a number, a string or an operator"),
        ("a.1", 1, "an operator or the end"),
        ("a b", 2, "an operator or the end"),
        ("[](int i){i;}", 10, "`return`"),
        ("x.(", 2, "the name of a member"),
    ],
)
def test_a_syntax_error_has_a_position(text: str, position: int, expected: str) -> None:
    with pytest.raises(FormulaSyntaxError, match=re.escape(f"expected {expected} at position {position}")) as caught:
        parse(text)
    assert (caught.value.text, caught.value.position, caught.value.expected) == (text, position, expected)
