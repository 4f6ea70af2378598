"""Gufunc signatures: what is read, what is refused, and what is said of shapes that do not fit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity_tests.harness.specs.signature import Signature

ATTN = Signature.parse("(n,d),(m,d),(m,e)->(n,e),(n,m)")

_AXIS = st.from_regex(r"[a-z]\w{0,2}|[1-9]", fullmatch=True)
_ARGUMENTS = st.lists(st.lists(_AXIS, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
_SPACE = st.sampled_from(["", " ", "  "])


def test_the_axes_of_every_argument_in_order():
    assert ATTN.inputs == (("n", "d"), ("m", "d"), ("m", "e"))
    assert ATTN.outputs == (("n", "e"), ("n", "m"))
    assert ATTN.axes == ("n", "d", "m", "e")


def test_scalars_and_fixed_sizes():
    signature = Signature.parse("(),(3,n)->()")
    assert signature == Signature(((), ("3", "n")), ((),))
    assert signature.axes == ("n",)
    assert signature.input_shapes({"n": 5}) == ((), (3, 5))


@pytest.mark.slow
@given(_ARGUMENTS, _ARGUMENTS, st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_back(inputs, outputs, data):
    def side(arguments):
        space = data.draw(_SPACE)
        return f"{space},{space}".join("(" + f"{space},{space}".join(axes) + ")" for axes in arguments)

    space = data.draw(_SPACE)
    text = f"{space}{side(inputs)}{space}->{space}{side(outputs)}{space}"
    assert Signature.parse(text) == Signature(inputs, outputs)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("(n)", id="no arrow"),
        pytest.param("(n)->", id="no output"),
        pytest.param("->(n)", id="no input"),
        pytest.param("n->n", id="no parentheses"),
        pytest.param("(n)(m)->(n)", id="no comma between arguments"),
        pytest.param("(n,)->(n)", id="trailing comma"),
        pytest.param("(n m)->(n)", id="no comma between axes"),
        pytest.param("(n->(n)", id="unbalanced"),
        pytest.param("((n))->(n)", id="nested"),
        pytest.param("(n)->(n)->(n)", id="two arrows"),
        pytest.param("(3n)->(n)", id="neither a name nor a size"),
        pytest.param("(n|)->(n)", id="broadcast from nothing"),
        pytest.param("(n||1),(n)->(n)", id="two bars"),
        pytest.param("(n,...)->(n)", id="an ellipsis at the end"),
        pytest.param("(..,n)->(n)", id="two points"),
        pytest.param("(n-1)->(n)", id="arithmetic"),
    ],
)
def test_what_is_no_signature_is_refused_with_an_example_of_one(text):
    with pytest.raises(ValueError, match="is not a gufunc signature") as refusal:
        Signature.parse(text)
    message = str(refusal.value)
    assert message.startswith(f"signature {text!r} is not a gufunc signature, at character ")
    assert message.endswith(
        '; write the axes of each input and output by name, such as "(n,d),(m,d)->(n,m)", with "()" for a scalar'
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            "(n?,d),(d)->(n?)",
            "has an optional axis; an operator with it and one without it are two: write an OpSpec for each",
            id="optional",
        ),
        pytest.param(
            "(n|2),(n)->(n)",
            'broadcasts an axis from another size than 1; write "n|1" where an input may be of size 1 along n',
            id="from 2",
        ),
        pytest.param(
            "(n|10),(n)->(n)",
            'broadcasts an axis from another size than 1; write "n|1" where an input may be of size 1 along n',
            id="from 10",
        ),
        pytest.param(
            "(n),(n)->(),(n|1)",
            "broadcasts axis n of output 1; only an input can be of size 1 along an axis that others have longer",
            id="an output",
        ),
        pytest.param(
            "(d),(n|1,d)->(d)",
            "broadcasts axis n of input 1, but no other axis of an input is named n; write n without |1, or name it "
            "where its size comes from",
            id="against nothing",
        ),
    ],
)
def test_why_a_modified_axis_is_refused(text, why):
    with pytest.raises(ValueError, match="^" + re.escape(f"signature {text!r} {why}") + "$"):
        Signature.parse(text)


def test_an_axis_that_may_be_broadcast():
    signature = Signature.parse("(n|1, m | 1),(n),(m)->(n,m)")
    assert signature.inputs == (("n", "m"), ("n",), ("m",))
    assert signature.broadcast == ((0, 0), (0, 1))
    assert signature.axes == ("n", "m")
    sizes = {"n": 4, "m": 3}
    assert signature.input_shapes(sizes) == ((4, 3), (4,), (3,))
    assert signature.input_shapes(sizes, {(0, 0)}) == ((1, 3), (4,), (3,))
    assert signature.input_shapes(sizes, signature.broadcast) == ((1, 1), (4,), (3,))


def test_someone_keeps_the_size_of_a_broadcast_axis():
    signature = Signature.parse("(n|1),(n|1)->(n)")
    assert all(signature.sized_without((place,)) for place in signature.broadcast)
    assert not signature.sized_without(signature.broadcast)
    fixed = Signature.parse("(3|1)->(3)")
    assert fixed.sized_without(fixed.broadcast)


SIZES = {"n": 2, "d": 3, "m": 4, "e": 5}


def test_outputs_that_fit():
    assert ATTN.output_mismatch(SIZES, ((2, 5), (2, 4))) is None


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        pytest.param(((2, 5),), "returns 1 outputs, but its signature has 2", id="too few"),
        pytest.param(((2, 5), (2, 4), ()), "returns 3 outputs, but its signature has 2", id="too many"),
        pytest.param(((2, 5), (8,)), "returns shape (8,) for output 1, but its signature has (n,m)", id="rank"),
        pytest.param(((2, 5), (4, 2)), "returns shape (4, 2) for output 1 (n,m), where axis n is 2", id="transposed"),
    ],
)
def test_outputs_that_do_not_fit(shapes, text):
    assert ATTN.output_mismatch(SIZES, shapes) == text


def test_an_axis_that_no_input_has_may_have_any_size_but_one_only():
    signature = Signature.parse("(n)->(k),(k)")
    assert signature.output_mismatch({"n": 2}, ((7,), (7,))) is None
    wrong = "returns shape (6,) for output 1 (k), where axis k is 7"
    assert signature.output_mismatch({"n": 2}, ((7,), (6,))) == wrong


def test_a_fixed_size_of_an_output_holds():
    signature = Signature.parse("(n)->(3)")
    assert signature.output_mismatch({"n": 2}, ((3,),)) is None
    assert signature.output_mismatch({"n": 2}, ((2,),)) == "returns shape (2,) for output 0 (3), where axis 3 is 3"


def test_any_number_of_leading_axes():
    signature = Signature.parse("( ..., n ),(n)->(...)")
    assert signature.inputs == (("...", "n"), ("n",))
    assert (signature.core, signature.axes) == (("n",), ("batch", "n"))
    assert signature.input_shapes({"n": 5}) == ((5,), (5,))
    assert signature.input_shapes({"batch": 2, "batch2": 3, "n": 5}) == ((2, 3, 5), (5,))
    assert signature.output_mismatch({"batch": 2, "n": 5}, ((2,),)) is None
    assert signature.output_mismatch({"n": 5}, ((2,),)) == "returns shape (2,) for output 0, but its signature has ()"
    assert signature.output_mismatch({"batch": 2, "n": 5}, ((3,),)) == (
        "returns shape (3,) for output 0 (batch), where axis batch is 2"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(n)->(...,n)", 'has "..." in an output and in no input; no input says what it is'),
        ("(...,batch)->(...)", 'names an axis batch, as those of "..." are called; rename it'),
    ],
)
def test_why_leading_axes_are_refused(text, why):
    with pytest.raises(ValueError, match="^" + re.escape(f"signature {text!r} {why}") + "$"):
        Signature.parse(text)
